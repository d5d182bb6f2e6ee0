// Package sizing says what a mesh of some size would need of a control plane, from what one sidecar, one service and one change were
// measured to cost: replicas, memory, CPU, network.
//
//	Constants (measured once, or by whoever wants to know of another machine) ─┐
//	Mesh (how much of what), Limits (of a replica)                             ├─► Estimate ─► table
//
// All of it are formulas without I/O; each is stated where it stands, with what it assumes:
//
//   - what is measured grows in proportion: of sidecars, of services that a sidecar sees, of changes;
//   - sidecars are spread evenly over the replicas, and each replica watches the whole mesh;
//   - CPUs are as fast as the measured one, and nobody else takes them; the network is no limit, only what goes over it is told;
//   - a sidecar is sent at most ten pushes a second, since changes that come closer together are one push.
//
// The package imports nothing of Lateen but perf/measure, for the machine that constants belong to.
package sizing
