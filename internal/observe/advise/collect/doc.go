// Package collect turns what a control plane, Prometheus and Envoys say into the facts that package
// advise judges.
//
//	/metrics, twice ────► ReplicaOf ───┐
//	Prometheus ─────────► Prometheus ──┼──► advise.Replica, advise.Calls
//	Envoy's /clusters ──► CalledHosts ─┘
//
// It may import api/model, mesh/census, observe/advise and perf/measure.
package collect
