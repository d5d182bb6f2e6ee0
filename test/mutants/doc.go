// Package mutants checks the checkers: it plants faults in the product, one at a time, and the
// property tests that compare what is kept up step by step with what is made from nothing must find
// each.
//
// A fault is an edge that is cut (a change that no longer reaches what depends on it, an index that
// is not kept up), see faults_test.go, or a field that a key or an equality no longer looks at, see
// fields_test.go. Edges are listed by hand: a function and a node of it, named by its source
// ("ExprStmt m.addRule(r)"), so that what else changes in the function leaves the place alone. A
// function or node that is not there (any more) fails the test at once. Fields are found by looking
// at the types that stand in keys, so a new field of a translation's input is a new fault at once.
//
// All faults are compiled in at once, each behind a condition: go test -overlay replaces the files,
// and an environment variable of the test's process says which one is in force. So a fault costs a
// run and no build.
package mutants
