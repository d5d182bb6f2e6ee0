// Package admin owns the HTTP interface for operators and tools: metrics, readiness, version, what
// each connected proxy has and should have, and what the mesh knows of Pods, services and policies.
// Where istiod has the same pages, paths and JSON are istiod's. What pages are asked and answer is
// in admin/page, which clients import.
//
//	Fleet, Ready, Gatherer ─┬─► Handler ───► /metrics /ready /version /debug/…
//	Mesh ───────────────────┘─► Inspector ─► the same over xDS, as istioctl asks for it
//
// It reads through small interfaces, and sets nothing but the level of the log, for istioctl. It
// may import source, api/kinds, api/model, mesh/state, mesh/scope, mesh/policy, mesh/census,
// xds/resource, xds/session, xds/serve and its own page. Only app imports it.
package admin
