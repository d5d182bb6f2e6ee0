// Package validate checks what objects say about each other, and keeps every problem that stands.
//
//	Snapshot, Delta ─► Checker.Check ─► ProblemStore ◄─ Report, SetIngest, Conflicts
//
// Sources report what they could not read, the conversion sets what it refused, and views tell conflicts.
//
// A VirtualService names a Gateway that does not exist, two objects claim one host, a Secret of a
// Gateway is missing: no object shows that by itself, so ingest cannot. A check costs what the
// Delta holds.
//
// It may import api/kinds, source, model and mesh/state.
package validate
