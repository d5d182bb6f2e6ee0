// Package perf owns what lateen perf measures and how it is told: scenarios, the times that changes take, searches for capacity,
// reports.
//
//	load (objects, changes) ──► controlplane (Lateen as a child, or any behind an API server) ══ xDS ══► sidecar (thousands, simulated)
//	                                     │ CPU, memory                                                      │ marked resources, bytes
//	                                     └────────────────────────► bench ◄─────────────────────────────────┘
//	                                                            phases ──► Report
//
// A scenario is a list of steps: sidecars connect, changes of a kind are made at a steady rate, pods go and come, the control plane
// restarts. Each step is a Phase of the report. A change has a Marker in what it changes, and is timed from just before it is written
// until each sidecar has received the marker, or that of a later change; nothing of the control plane is asked.
//
// It may import source, terminal (whose tables reports are) and the packages below it; nothing of the server.
package perf
