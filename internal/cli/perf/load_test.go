package perf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// TestReportsAreKeptAndDrawn runs both programs, one beside the other, as users have them. An
// estimate and a measurement leave one JSON file each in the directory of --report, and one page.
func TestReportsAreKeptAndDrawn(t *testing.T) {
	if testing.Short() {
		t.Skip("builds both programs")
	}
	bin, reports := t.TempDir(), filepath.Join(t.TempDir(), "reports")
	lateen, err := lateenserve.BuildCommands(bin)
	require.NoError(t, err)
	_, err = lateenserve.BuildLoadTest(bin)
	require.NoError(t, err)
	perf := func(args ...string) (stdout, stderr string) {
		t.Helper()
		var out, progress bytes.Buffer
		cmd := exec.CommandContext(t.Context(), lateen, slices.Concat([]string{"perf"}, args, []string{
			"--report", reports,
		})...)
		cmd.Stdout, cmd.Stderr = &out, &progress
		require.NoError(t, cmd.Run(), "%s", &progress)
		return out.String(), progress.String()
	}
	// kept requires one file of a command, and what the page shows of it.
	kept := func(command, drawn string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(reports, command+"-*.json"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		page, err := os.ReadFile(filepath.Join(reports, "index.html"))
		require.NoError(t, err)
		require.Contains(t, string(page), drawn)
	}

	out, _ := perf("model", "--sidecars", "1000", "--services", "10")
	require.Contains(t, out, "replicas")
	kept("model", "What a mesh would need")

	out, progress := perf("services", "--sidecars", "4", "--services", "2", "--namespaces", "1", "--changes", "1",
		"--rate", "0", "--calm", "20ms")
	require.Contains(t, out, "connect")
	require.NotContains(t, out, "starting the control plane")
	require.Contains(t, progress, "starting the control plane")
	kept("services", "Control plane: services")
	kept("model", "What a mesh would need")
}
