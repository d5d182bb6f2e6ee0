// Package scope owns who sees what: which Class a proxy belongs to, and which services, routes and
// rules a class sees in a Snapshot (Sidecar, exportTo, workload selectors, gateways).
//
//	Snapshot + Proxy ──► Classifier ──► Class   what tells proxies apart, by match results
//	Snapshot + Class ──► Scope                  a view that holds no copy
//
// A Class never holds what only one proxy has (its addresses, its labels as such): proxies that
// should get the same configuration must come out equal. Moves reports whether a delta may change a
// proxy's class.
//
// What is compiled for one class is shared with others whose scopes answer the same (ReadSet), so
// all that is read of a class goes through the methods of Scope.
//
// It may import api/kinds, source, api/model and mesh/state. It knows nothing of Envoy.
package scope
