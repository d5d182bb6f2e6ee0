// Package apart runs simulated sidecars in a process of their own, which has only what CPU all others leave: as if they were on
// another machine. Those that are measured stay in the first process, and what the others do delays none of them there.
//
//	Start ──► order (who they are, how they behave) ══ standard input ══►  Serve ──► sidecar.Fleet
//	Synced ◄── report (how many have all) ◄══════ standard output ══════
//
// The process ends with its standard input, and so with the process that has started it, however that ends.
//
// It may import perf/sidecar.
package apart
