package loadtest

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/lab"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// hack/lab.sh runs the lab with its own programs, and keeps the report.
var (
	programDir = flag.String("programs", "", "the directory of lateen and lateen-perf (default: they are built)")
	reportFile = flag.String("report", "", "run the lab at its own size, and write its report into this file")
	scale      = flag.String("scale", "", "with -report: the share of the published size (default: the lab's own)")
)

// TestGatewayLabCountsAttachedRoutes runs lateen perf gateway --kubeconfig with an API server: its
// report has all tables, those of attached routes too.
func TestGatewayLabCountsAttachedRoutes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds both programs and starts an API server")
	}
	envoy := realenvoy.Binary(t)
	api := kubeapi.Start(t, kubeapi.Options{})
	api.InstallIstioCRDs(t)
	api.InstallGatewayAPICRDs(t)
	programs := builtPrograms(t)
	args := []string{"perf", "gateway", "--kubeconfig", filepath.Base(api.Kubeconfig()), "--output", "json"}
	if *reportFile == "" {
		args = append(args, "--scale", "0.01", "--pause", "0.1")
	} else if *scale != "" {
		args = append(args, "--scale", *scale)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "lateen-perf"), args...)
	cmd.Dir = filepath.Dir(api.Kubeconfig()) // so that the report does not show a path
	cmd.Env = append(os.Environ(), "LATEEN_ENVOY="+envoy)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s", &stderr)

	r, err := lab.ParseReport(stdout.Bytes())
	require.NoError(t, err)
	require.Equal(t, "gateway", r.Lab)
	last := r.Tables[len(r.Tables)-1]
	require.Equal(t, "Routes attach, until the Gateway's status counts them", last.Title)
	require.Len(t, last.Rows, 2)
	for _, row := range last.Rows {
		for i, c := range row.Cells {
			require.NotNil(t, c.Ours, "%s: %s", row.Name, last.Columns[i].Name)
		}
	}
	if *reportFile != "" {
		require.NoError(t, os.WriteFile(*reportFile, stdout.Bytes(), 0o644))
	}
}

// builtPrograms returns the directory of lateen and lateen-perf.
func builtPrograms(t *testing.T) string {
	t.Helper()
	if *programDir != "" {
		return *programDir
	}
	dir := t.TempDir()
	_, err := lateenserve.BuildCommands(dir)
	require.NoError(t, err)
	_, err = lateenserve.BuildLoadTest(dir)
	require.NoError(t, err)
	return dir
}
