// Package perf owns what lateen perf measures and reports: scenarios, latencies of changes,
// capacity searches, reports.
//
//	load: objects, changes ──► controlplane: Lateen as ══ xDS ══► sidecar: thousands,
//	                           a child, or any behind             simulated
//	                           an API server                          │
//	                               │ CPU, memory                      │ marked resources, bytes
//	                               └─────────────► testbed ◄──────────┘
//	                                    phases ──► Report
//
// A scenario is a list of steps: sidecars connect, changes are made at a steady rate, pods are
// replaced, the control plane restarts. Each step is a Phase of the report. A change carries a
// Marker. Its latency runs from just before the write until each sidecar has received this marker
// or a later one. So the control plane needs no instrumentation.
//
// The package may import source, terminal (for the tables of reports) and the packages below it,
// and nothing of the server.
package perf
