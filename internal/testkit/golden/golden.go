// Package golden compares what tests get with files that people have looked at. With -update it
// writes these anew: "make golden". It may import nothing of the product.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files, and remove those without a case")

// Updating tells whether golden files are being written.
func Updating() bool { return *update }

// File compares the file with what it should hold.
func File(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644)) //nolint:gosec // as the checkout's other files
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update, and look at what it wrote")
	require.Empty(t, cmp.Diff(string(want), got), "%s: -want +got; run the test with -update to accept", path)
}

// Cases runs each <case><in> of testdata and compares what run makes of it with <case><out>; run
// gets the path of its input. An output without a case is an error. A case is added by adding its
// input and running the test with -update.
func Cases(t *testing.T, in, out string, run func(t *testing.T, path string) string) {
	t.Helper()
	known := map[string]bool{}
	for _, path := range glob(t, "testdata/*"+in) {
		output := strings.TrimSuffix(path, in) + out
		known[output] = true
		t.Run(strings.TrimSuffix(filepath.Base(path), in), func(t *testing.T) { File(t, output, run(t, path)) })
	}
	require.NotEmpty(t, known)
	for _, path := range glob(t, "testdata/*"+out) {
		switch {
		case known[path]:
		case *update:
			require.NoError(t, os.Remove(path))
		default:
			t.Errorf("%s has no case; -update removes it", path)
		}
	}
}

// Scripts runs each file of testdata that matches the pattern; run gets its text, and returns it
// with what it should say.
func Scripts(t *testing.T, pattern string, run func(t *testing.T, text string) string) {
	t.Helper()
	paths := glob(t, filepath.Join("testdata", pattern))
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			File(t, path, run(t, string(text)))
		})
	}
}

// want is the name of the file of an archive that holds what is expected.
const want = "want"

// Archives runs each archive of the directory and compares what run makes of it with its file
// "want", the last one; run gets the archive without that.
func Archives(t *testing.T, dir string, run func(t *testing.T, in *txtar.Archive) string) {
	t.Helper()
	paths := glob(t, filepath.Join(dir, "*.txtar"))
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			require.NoError(t, err)
			in := *archive
			if last := len(in.Files) - 1; last >= 0 && in.Files[last].Name == want {
				in.Files = in.Files[:last:last]
			}
			got := in
			got.Files = append(got.Files[:len(got.Files):len(got.Files)],
				txtar.File{Name: want, Data: []byte(run(t, &in))})
			File(t, path, string(txtar.Format(&got)))
		})
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return paths
}
