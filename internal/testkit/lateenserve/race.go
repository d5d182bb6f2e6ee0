//go:build race

package lateenserve

// AsTests are the flags of `go build` that build the binary as the tests are built: with -race they
// look for races in what they run, too.
func AsTests() []string { return []string{"-race"} }
