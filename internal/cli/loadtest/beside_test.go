package loadtest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// istiodEnv has istiod answer in plaintext, without webhooks, and as many streams a second as come.
var istiodEnv = []string{
	"ENABLE_CA_SERVER=false", "PILOT_CERT_PROVIDER=none", "VALIDATION_WEBHOOK_CONFIG_NAME=",
	"INJECTION_WEBHOOK_CONFIG_NAME=", "PILOT_MAX_REQUESTS_PER_SECOND=1000",
}

// TestBesideIstiod measures the istiod that $LATEEN_ISTIOD names and Lateen with the same objects
// in one API server, as docs/guides/measure.md tells: a route edit costs Lateen fewer bytes. make
// beside-istiod runs it at the size of docs/performance.md, and keeps the report.
func TestBesideIstiod(t *testing.T) {
	istiod := os.Getenv("LATEEN_ISTIOD")
	if istiod == "" {
		t.Skip("LATEEN_ISTIOD names no istiod (make istiod)")
	}
	api := kubeapi.Start(t, kubeapi.Options{})
	api.InstallIstioCRDs(t)
	dir, config := filepath.Split(api.Kubeconfig()) // where all runs, so that the report shows no path
	require.NoError(t, os.Symlink(istiod, filepath.Join(dir, "pilot-discovery")))
	args := []string{
		"perf", "all", "--kubeconfig", config, "--beside-lateen", "--singly", "--changes", "3",
		"--name", "istiod", "--target", "127.0.0.1:15010", "--monitoring", "127.0.0.1:15014",
		"--run", "./pilot-discovery discovery --kubeconfig " + config + " --shutdownDuration 1s",
		"--warm-command", "curl -sf http://127.0.0.1:8080/debug/adsz?push=true", "--output", "json",
	}
	if *reportFile == "" {
		args = append(args, "--services", "20", "--pods", "20", "--sidecars", "20", "--calm", "100ms")
	} else {
		args = append(args, "--services", "1000", "--sidecars", "2000")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(builtPrograms(t), "lateen"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), istiodEnv...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s", &stderr)
	if *reportFile != "" {
		require.NoError(t, os.WriteFile(*reportFile, stdout.Bytes(), 0o644))
	}

	var both perf.Beside
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &both))
	require.Empty(t, both.Comparison.Differences)
	require.Less(t, receivedOf(t, &both.B, "routes"), receivedOf(t, &both.A, "routes"))
}

// receivedOf is how many bytes all sidecars received in a phase.
func receivedOf(t *testing.T, r *perf.Report, phase string) int64 {
	t.Helper()
	i := slices.IndexFunc(r.Phases, func(p perf.Phase) bool { return p.Name == phase })
	require.GreaterOrEqual(t, i, 0, "the phase %s of %s", phase, r.ControlPlane.Name)
	require.Positive(t, r.Phases[i].Received)
	return r.Phases[i].Received
}
