// Package view owns what proxies should have: Resources (name, content version, encoded bytes), Sets of them with
// cheap differences, the States of classes, the memo from translation inputs to Resources, and the Compiler that takes
// a World and a Delta from one generation to the next at the cost of the change.
//
//	World + Delta ──► impact ──► units per class ──► slots ──► translate (memoised) ──► edits of Sets ──► State per class
//	                  (what it    (unitHost, …)      (one resource each, by name)
//	                  may touch)
//
// Everything that leaves the package is immutable and shared: a Resource is encoded once, sets share the subtrees they agree
// on, and a State is replaced, never changed. Route tables and assignments are assemblies of members, put together when
// their bytes are first asked for. What holds a proxy's own addresses has placeholders in their place until it is sent (Overlay).
//
// It may import source, model, world, scope and translate. It knows nothing of gRPC or of sessions.
package view
