// Package compile turns snapshots of the mesh into the configuration of proxies. It owns the
// classes and their units, the memo from translation inputs to Resources, and the Compiler. The
// Compiler takes a Snapshot and a Delta from one generation to the next at the cost of the change.
//
//	Snapshot + Delta ──► impact: what it may touch ──► units of each class, by kind
//	    ──► slots: one resource each, by name ──► emit: translate, once per input ──► edits of Sets
//	    ──► one State per class
//
// What leaves the package are the States and Resources of xds/resource, which never change.
//
// Words that Envoy does not have:
//
//	class       the proxies that get the same configuration (scope.Class)
//	variant     the proxies of a class at one place, which see the same endpoints in the same order
//	unit        a part of a class's configuration that is compiled as a whole
//	slot        one resource of a unit, by name
//	impact      the hosts, ports and routes that a Delta may touch, in any class
//	base class  the compiled class that a new one starts from
//
// The package may import api/kinds, api/model, source, mesh/forkmap, mesh/state, mesh/scope,
// xds/resource, xds/proxystats and the packages of translate but evaluate. It knows nothing of gRPC
// or of sessions.
package compile
