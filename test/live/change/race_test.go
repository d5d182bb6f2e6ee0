//go:build race

package change

// buildFlags build the binary as these tests are built: with -race they look for races in what they run, too.
var buildFlags = []string{"-race"}
