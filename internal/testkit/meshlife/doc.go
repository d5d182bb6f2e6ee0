// Package meshlife draws small meshes and what happens to them, as model objects: every kind of
// change to every kind of object, with names, hosts, ports and labels so few that objects meet.
// Property tests of mesh/state and compile compare what they keep up step by step with what they
// make from nothing.
//
// It may import api/kinds, source and model, and is for tests alone.
package meshlife
