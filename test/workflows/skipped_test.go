package workflows

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSkippedPartsAreTold: without root hack/test-rest.sh ends with a line that names each package
// whose tests need it.
func TestSkippedPartsAreTold(t *testing.T) {
	_, line, found := strings.Cut(read(t, "hack/test-rest.sh"), "skipped without root:")
	require.True(t, found)
	line, _, _ = strings.Cut(line, "\n")
	var named []string
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(` ,"`, r) }) {
		if strings.Contains(word, "/") {
			require.DirExists(t, filepath.Join(root, word))
			named = append(named, word)
		}
	}
	look := func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "os.Getuid() "+"!= 0") {
			return err
		}
		name, err := filepath.Rel(root, file)
		require.True(t, slices.ContainsFunc(named, func(pkg string) bool {
			return strings.HasPrefix(filepath.ToSlash(name), pkg+"/")
		}), "hack/test-rest.sh does not say that %s needs root", name)
		return err
	}
	for _, top := range []string{"internal", "test"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, top), look))
	}
}
