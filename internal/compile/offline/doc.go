// Package offline is a mesh that nobody runs: the objects of files or of a cluster, and the proxies
// that its workloads have or would have. They are compiled by the code of the control plane, so
// that what it would send can be looked at without it.
//
//	objects ─► convert ─► mesh/state ─┐
//	injected Pods ─► a proxy each ────┴─► compile ─► what each class of proxies would get
//
// It knows of a proxy what its Pod says. What only a running one can say is taken to be as usual:
// it takes all of its Pod's connections, and is run by the agent.
//
// It may import api/istionames, api/kinds, source, api/model, api/convert, mesh/state, mesh/scope,
// compile and xds/resource.
package offline
