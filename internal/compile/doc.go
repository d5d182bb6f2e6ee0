// Package compile owns the way from a World to what proxies should have: classes and their units, the memo from
// translation inputs to Resources, and the Compiler, which takes a World and a Delta from one generation to the next at
// the cost of the change.
//
//	World + Delta ──► impact ──► units per class ──► slots ──► translate (memoised) ──► edits of Sets ──► State per class
//	                  (what it    (unitHost, …)      (one resource each, by name)
//	                  may touch)
//
// What leaves it are the States and Resources of xds/resource, which never change.
//
// It may import api/kinds, source, model, world, scope, translate and xds/resource. It knows nothing of gRPC or of sessions.
package compile
