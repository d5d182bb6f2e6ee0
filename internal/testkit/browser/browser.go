// Package browser has a real browser, a headless Chromium, look at pages. Only tests import it.
package browser

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// DOM returns what a file is once a browser without a network has run its scripts, as HTML. Without
// a browser in $PATH the test is skipped, or fails if $LATEEN_CHROMIUM_REQUIRED is set.
func DOM(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), chromium(t), "--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1200,900",
		"--virtual-time-budget=10000", "--dump-dom", "file://"+path).Output()
	require.NoError(t, err)
	return string(out)
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("LATEEN_CHROMIUM_REQUIRED") != "" {
		require.Fail(t, "there is no chromium in $PATH; Debian's package chromium has it")
	}
	t.Skip("there is no chromium in $PATH")
	return ""
}
