//go:build !race

package lateenserve

// AsTests are the flags of `go build` that build the binary as the tests are built.
func AsTests() []string { return nil }
