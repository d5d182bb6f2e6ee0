// Package validate checks objects against each other and keeps every current problem.
//
//	Snapshot, Delta ─► Checker.Check ─► ProblemStore ◄─ Report, SetConversion, Conflicts
//
// Sources report what they could not read, the conversion what it refused, and compile what
// conflicts.
//
// A VirtualService names a Gateway that does not exist, two objects claim one host, a Secret of a
// Gateway is missing: no object shows that by itself, so the conversion cannot report it. The cost
// of a check follows the Delta.
//
// It may import api/kinds, source, api/model and mesh/state.
package validate
