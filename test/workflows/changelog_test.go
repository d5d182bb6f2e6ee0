package workflows

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChangelogJoinsFragments: hack/changelog.sh puts a release before those that are there, and
// removes its fragments. Without fragments, or for a release that is there, it changes nothing.
func TestChangelogJoinsFragments(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "changes"), 0o755))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "changes", name), []byte(text), 0o600))
	}
	release := func(version string) (string, error) {
		cmd := exec.Command(filepath.Join(root, "hack/changelog.sh"), version, "2026-11-28")
		cmd.Env = append(os.Environ(), "ROOT="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	write("README.md", "# Fragments\n")
	write("b.md", "* second\n")
	write("a.md", "* first\n")
	out, err := release("v1")
	require.NoError(t, err, out)
	write("c.md", "* third\n")
	out, err = release("v1")
	require.ErrorContains(t, err, "1")
	require.Contains(t, out, "has v1 already")
	out, err = release("v2")
	require.NoError(t, err, out)

	text, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	require.NoError(t, err)
	require.Equal(t, "# Changelog\n\n## v2 (2026-11-28)\n\n* third\n\n## v1 (2026-11-28)\n\n* first\n* second\n",
		string(text))
	left, err := os.ReadDir(filepath.Join(dir, "changes"))
	require.NoError(t, err)
	require.Len(t, left, 1, "README.md")
	out, err = release("v3")
	require.Error(t, err)
	require.Contains(t, out, "no fragments")
}

// TestFragmentsAreLists: each fragment can be joined with others.
func TestFragmentsAreLists(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "changes/*"))
	require.NoError(t, err)
	for _, file := range files {
		if filepath.Base(file) == "README.md" {
			continue
		}
		require.Equal(t, ".md", filepath.Ext(file), file)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			require.Regexp(t, `^(\* |  )\S.*\n$`, line, file)
		}
	}
}
