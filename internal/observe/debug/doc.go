// Package debug owns the HTTP interface for operators and tools: metrics, readiness, version, and
// what each connected proxy has and should have. The paths and the JSON are istiod's where istiod
// has them.
//
//	Fleet, Problems, Ready, Gatherer ──► Handler ──► /metrics /ready /version /debug/…
//
// It only reads, through small interfaces. It may import observe's registry, source, xds/resource,
// xds/session and xds/serve; nothing but cmd imports it.
package debug
