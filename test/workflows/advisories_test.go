package workflows

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAdvisoriesAreOfThePinnedEnvoy: who changes the pin renews docs/envoy-advisories.md. How old
// the page may be is asked before a release alone.
func TestAdvisoriesAreOfThePinnedEnvoy(t *testing.T) {
	check := func(args ...string) (string, error) {
		out, err := exec.Command(filepath.Join(root, "hack/advisories.sh"), args...).CombinedOutput()
		return string(out), err
	}
	out, err := check()
	require.NoError(t, err, out)
	text := read(t, "docs/envoy-advisories.md")
	looked, err := time.Parse("* Looked up: 2006-01-02", lineWith(t, text, "* Looked up: "))
	require.NoError(t, err)
	out, err = check("30", looked.AddDate(0, 0, 30).Format(time.DateOnly))
	require.NoError(t, err, out)
	out, err = check("30", looked.AddDate(0, 0, 31).Format(time.DateOnly))
	require.Error(t, err, out)
	require.Contains(t, out, "renew it")
	require.Contains(t, read(t, "Makefile"), "hack/advisories.sh 30", "make release-check asks for the age")
}

// lineWith is the first line of a text with a beginning.
func lineWith(t *testing.T, text, beginning string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, beginning) {
			return strings.TrimSpace(line)
		}
	}
	require.Fail(t, "no line begins with "+beginning)
	return ""
}
