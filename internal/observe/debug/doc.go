// Package debug owns the HTTP interface for operators and tools: metrics, readiness, version, and
// what each connected proxy has and should have. Where istiod has the same pages, paths and JSON
// are istiod's.
//
//	Fleet, Problems, Ready, Gatherer ─┬─► Handler ───► /metrics /ready /version /debug/…
//	Pages                             └─► Inspector ─► the same over xDS, as istioctl asks for it
//
// It only reads, through small interfaces. It may import observe's registry, source, xds/resource,
// xds/session and xds/serve. Only app and cli import it.
package debug
