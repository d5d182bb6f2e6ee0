// Package machines keeps a WorkloadEntry for each connected proxy of a machine outside of
// Kubernetes: it makes one from the WorkloadGroup that the proxy names, says whether the proxy is
// connected and whether its workload is healthy, and removes it some time after the proxy has left.
// Annotations, names and conditions are istiod's (pilot/pkg/autoregistration), so that the two can
// stand beside each other and take over from each other.
//
//	xds/serve ─ connects, disconnects, health ─► Registry ─► queue ─► reconcile ─► WorkloadEntry
//	                                                ▲
//	WorkloadEntries of replicas that have ended ─ sweep
//
// Each replica writes the entries of the proxies that are connected to it; the one that holds the
// Lease also ends those of replicas that are gone. Nothing is read back from here into a proxy's
// configuration: the WorkloadEntry arrives as any other, by the source.
//
// It may import observe and api/kinds.
package machines
