//go:build !race

package change

// buildFlags build the binary as these tests are built.
var buildFlags []string
