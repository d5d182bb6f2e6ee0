package workflows

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// planComment runs examples/ci/plan-comment.sh with a stand-in for lateen.
func planComment(t *testing.T, lateen string) (comment string, code int) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lateen"), []byte("#!/bin/sh\n"+lateen+"\n"), 0o755))
	cmd := exec.Command(filepath.Join(root, "examples/ci/plan-comment.sh"), "manifests", "more.yaml")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		require.ErrorAs(t, err, &failed)
		code = failed.ExitCode()
	}
	return string(out), code
}

// TestPlansAreCommented: the script asks for a plan of all files, says how it ended, and writes no
// more than a comment holds.
func TestPlansAreCommented(t *testing.T) {
	comment, code := planComment(t, `echo "$@"; echo '`+"`````"+`'; test -n "$NO_COLOR"`)
	require.Zero(t, code)
	require.Equal(t, "<!-- lateen plan -->\n### What this change does to the mesh\n\nNo problem would appear.\n\n"+
		"`````text\nplan -f manifests -f more.yaml\n` ` ` ` `\n`````\n", comment)
	for status, says := range map[int]string{
		3: "**Warnings** would", 4: "**Errors** would", 1: "**There is no plan.**",
	} {
		comment, code = planComment(t, "echo 'it is so' >&2; exit "+string(rune('0'+status)))
		require.Equal(t, status, code)
		require.Contains(t, comment, says)
		require.Contains(t, comment, "it is so")
	}
	comment, _ = planComment(t, "yes 'a line of a plan' | head -n 10000")
	require.Less(t, len(comment), 65536)
	comment, _ = planComment(t, "yes '→→→→→→→→→→' | head -n 3000") // 33,000 characters in 93,000 bytes
	require.Less(t, len(comment), 65536)
	require.Contains(t, comment, "The rest is in the log")
	require.Contains(t, comment, "The rest is in the log")
}

// TestExamplesForCIAreYAML: and they run the script that README.md has people copy.
func TestExamplesForCIAreYAML(t *testing.T) {
	readme := read(t, "examples/ci/README.md")
	for file, script := range map[string]string{
		"github/plan.yml": ".github/plan-comment.sh", "gitlab/plan.yml": "ci/plan-comment.sh",
	} {
		text := read(t, "examples/ci/"+file)
		var any map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &any), file)
		require.Equal(t, 1, strings.Count(text, " "+script+" manifests > comment.md"), file)
		require.Contains(t, readme, "`"+script+"`")
	}
}
