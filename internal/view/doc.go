// Package view owns what proxies should have: Resources (name, content version, encoded bytes), Sets of them with
// cheap differences, the States of classes, the memo from translation inputs to Resources, and the Compiler that takes
// a World and a Delta from one generation to the next at the cost of the change.
//
//	World + Delta ──► Compiler ──► scope (who sees what) ──► translate (memoised) ──► State per class
//
// It may import source, model, world, scope and translate. It knows nothing of gRPC or of sessions.
package view
