// Package sizing estimates what a mesh of some size needs of a control plane (replicas, memory,
// CPU, network) from the measured cost of one sidecar, one service and one change.
//
//	Constants (measured once, or again on another machine) ─┐
//	Mesh (how much of what), Limits (of a replica)          ├─► Estimate ─► table
//
// These are formulas without I/O. They assume:
//
//   - costs are linear in the number of sidecars, of services that a sidecar sees, and of changes;
//   - sidecars are spread evenly over the replicas, and each replica watches the whole mesh;
//   - CPUs are as fast as the measured one and not shared, and the network is not a limit;
//   - a sidecar receives at most ten pushes a second, since the debounce joins changes that come
//     closer together.
//
// The package imports nothing of Lateen but perf/measure, for the machine that constants belong to.
package sizing
