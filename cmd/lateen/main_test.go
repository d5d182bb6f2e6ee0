package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lateen-mesh/lateen/internal/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// said runs the command and returns its exit code and what it wrote to the standard error.
func said(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	saved := os.Stderr
	os.Stderr = write
	code = run(context.Background(), args)
	os.Stderr = saved
	require.NoError(t, write.Close())
	body, err := io.ReadAll(read)
	require.NoError(t, err)
	return code, string(body)
}

func TestMistakesInTheCommandLineAreTold(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bogus"}, `unknown command "bogus"`},
		{[]string{"up"}, "DIR is missing: want lateen up DIR"},
		{[]string{"up", "a", "b"}, `"b" is one argument too many`},
		{[]string{"serve"}, `required flag(s) "config-dir" not set`},
		{[]string{"status", "-o", "xml"}, `--output "xml": want one of table, json, yaml`},
		{[]string{"proxy-config", "p"}, "clusters|endpoints|listeners|routes is missing"},
		{[]string{"proxy-config", "p", "bogus"}, `"bogus": want one of clusters, endpoints, listeners, routes`},
	} {
		code, text := said(t, c.args...)
		require.Equal(t, exitUsage, code, "%v: %s", c.args, text)
		require.Contains(t, text, c.want)
		require.Contains(t, text, "See 'lateen --help'.")
	}
}

func TestWhatFailsIsNoMistakeInTheCommandLine(t *testing.T) {
	code, text := said(t, "up", "no/such/directory")
	require.Equal(t, exitFailed, code)
	require.Equal(t, "lateen: no/such/directory: want a directory of manifests, as examples/bookinfo\n", text)
}

func TestACheckThatIsStoppedSaysSo(t *testing.T) {
	var screen strings.Builder
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := upOptions{
		dir: t.TempDir(), stateDir: t.TempDir(), envoy: "/bin/true", level: "info", format: "text", check: true, freePorts: true,
		requests: 1, timeout: time.Minute, listen: listenFlags{xds: "127.0.0.1:0", monitoring: "127.0.0.1:0"},
	}
	require.ErrorIs(t, runUp(ctx, o, terminal.New(&screen, os.Getenv)), errFailed)
	require.Equal(t, "stopped before the check was done\n", screen.String())
}
