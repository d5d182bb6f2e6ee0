package envoyfacts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachStatementHasItsTest compares the statements of docs/protocol.md, 1 with the tests of this
// package.
func TestEachStatementHasItsTest(t *testing.T) {
	page, err := os.ReadFile("../../../docs/protocol.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var tested []string
	for _, file := range files {
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		tested = append(tested, numbers(`(?m)^func Test\w+_1_(\d+)\(`, code)...)
	}
	stated := numbers(`(?m)^\*\*1\.(\d+) `, page)
	require.NotEmpty(t, stated)
	require.ElementsMatch(t, stated, tested)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(stated))), len(stated), "each number once")
}

func numbers(pattern string, in []byte) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(in, -1) {
		found = append(found, string(match[1]))
	}
	return found
}
