package change

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/port"
)

// check runs "lateen up DIR --check" as a pipeline of somebody's CI would.
func check(t *testing.T, dir string, timeout time.Duration, flags ...string) (out string, exit int) {
	t.Helper()
	args := append([]string{"up", dir, "--check", "--requests", "50", "--timeout", timeout.String()}, flags...)
	out, errs, exit := lateen(t, []string{"LATEEN_ENVOY=" + envoy(t), "TMPDIR=" + t.TempDir()}, args...)
	return out + errs, exit
}

// TestCheckRunsBesideAMesh checks a directory on which a mesh runs already, with its gateway at a
// port of that very number.
func TestCheckRunsBesideAMesh(t *testing.T) {
	dir := bookinfo(t)
	m := &mesh{t: t, dir: dir}
	gatewayPort := freePort(t)
	m.edit("gateway.yaml", "    port: 8080", "    port: "+gatewayPort+"\n    targetPort: 8080")
	m = start(t, dir, "--free-ports=false", "--xds-address", "127.0.0.1:0", "--monitoring-address", "127.0.0.1:0")
	require.Equal(t, "http://127.0.0.1:"+gatewayPort, m.gateway)

	out, exit := check(t, dir, patience)
	require.Zero(t, exit, out)
	require.Contains(t, out, "OK: 50 requests, none failed")
	require.NotContains(t, out, m.gateway+" ")

	versions, _ := m.reviewers(20, nil)
	require.NotContains(t, versions, "status 0", "the mesh that ran goes on")
	require.Empty(t, m.status().Problems)
}

// TestWorkloadsCallInMutualTLSUnlessInPlaintext checks a mesh that refuses plaintext.
func TestWorkloadsCallInMutualTLSUnlessInPlaintext(t *testing.T) {
	dir := bookinfo(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "strict.yaml"), []byte(`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
`), 0o600))
	out, exit := check(t, dir, patience)
	require.Zero(t, exit, out)
	require.Contains(t, out, "OK: 50 requests, none failed")
	out, exit = check(t, dir, patience, "--plaintext")
	require.Equal(t, 1, exit, out)
	require.Contains(t, out, "all calls to them are refused")
}

// freePort is one that nobody else gets by chance until the test ends.
func freePort(t *testing.T) string {
	t.Helper()
	held, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(held.Release)
	_, number, err := net.SplitHostPort(held.Address)
	require.NoError(t, err)
	return number
}

func TestCheckFindsWhatIsBroken(t *testing.T) {
	for _, c := range []struct {
		name, file, from, to, says string
		timeout                    time.Duration
	}{
		{
			"a route to nowhere",
			"gateway.yaml",
			"host: productpage",
			"host: product-page",
			`FAILED: \d+ of 50 requests failed, 1 error in the manifests`,
			patience,
		},
		{
			"a mistake that no request meets",
			"traffic.yaml",
			"subset: v3\n      weight: 10",
			"subset: v3\n      wait: 10",
			`FAILED: 0 of 50 requests failed, \d+ errors? in the manifests`,
			patience,
		},
		{
			"a program that cannot start",
			"details.yaml",
			"image: lateen/sample",
			"image: nginx",
			`not everything is ready after 10s`,
			10 * time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := bookinfo(t)
			m := &mesh{t: t, dir: dir}
			m.edit(c.file, c.from, c.to)
			out, exit := check(t, dir, c.timeout)
			require.Equal(t, 1, exit, out)
			require.Regexp(t, c.says, out)
			require.Contains(t, out, filepath.Join(dir, c.file), "where the mistake is")
			require.Regexp(t, `the logs are in \S+`, out)
		})
	}
}

func TestCommandThatCannotRunSaysWhy(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, errs, exit := lateen(t, nil, "up", missing)
	require.Equal(t, 1, exit)
	require.Contains(t, errs, missing+": want a directory of manifests")

	_, errs, exit = lateen(t, nil, "up", t.TempDir(), "--envoy", missing)
	require.Equal(t, 1, exit)
	require.Contains(t, errs, missing+" is not an executable file")

	_, errs, exit = lateen(t, nil, "status", "--monitoring-address", "127.0.0.1:"+freePort(t))
	require.Equal(t, 1, exit)
	require.Contains(t, errs, "is a control plane running?")

	_, errs, exit = lateen(t, nil, "up")
	require.Equal(t, 2, exit)
	require.Contains(t, errs, "See 'lateen up --help'")
}
