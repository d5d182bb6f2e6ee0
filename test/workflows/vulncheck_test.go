package workflows

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// exitNotChecked is the status of a check that could not look (EX_TEMPFAIL of sysexits.h).
const exitNotChecked = 75

// TestASkippedVulnerabilityCheckIsNotGreen runs hack/vulncheck.sh without a database: it says that
// nothing was checked, with a status that is neither that of a pass nor that of a find.
func TestASkippedVulnerabilityCheckIsNotGreen(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	check := func(env ...string) (status int, out string) {
		cmd := exec.Command(filepath.Join(root, "hack/vulncheck.sh"), filepath.Join(t.TempDir(), "govulncheck"))
		cmd.Env = append(append(os.Environ(), "GOVULNDB="+gone.URL, "LATEEN_VULNCHECK_REQUIRED="), env...)
		text, err := cmd.CombinedOutput()
		require.Error(t, err, "%s", text)
		return cmd.ProcessState.ExitCode(), string(text)
	}
	status, out := check()
	require.Equal(t, exitNotChecked, status, out)
	require.Contains(t, out, "NOT CHECKED")
	status, out = check("LATEEN_VULNCHECK_REQUIRED=1")
	require.Equal(t, 1, status, out)

	rest, steps := read(t, "hack/test-rest.sh"), read(t, "hack/steps.sh")
	require.Contains(t, rest, "optional hack/vulncheck.sh", "the step goes on without a database")
	require.Contains(t, steps, "NOT CHECKED: $what", "and the end says so")
}
