// Package apart runs simulated sidecars in a separate process at the lowest priority, as if they
// were on another machine. Misbehaving sidecars run there, so that they do not delay the measured
// ones in the first process.
//
//	Start ──► order (who they are, how they behave) ══ standard input ══►  Serve ──► sidecar.Fleet
//	Synced ◄── report (how many are in sync) ◄═══════ standard output ══════
//
// The process ends when its standard input ends, and so with its parent in any case.
//
// It may import perf/sidecar.
package apart
