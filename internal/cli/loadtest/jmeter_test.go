package loadtest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// jmeterCommand runs lateen perf jmeter, and returns what it writes to the standard output.
func jmeterCommand(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(append([]string{"perf", "jmeter"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestMistakesOfJMeterAreToldAtOnce(t *testing.T) {
	for _, args := range [][]string{
		{"a.jtl"}, {"--merge"}, {"--merge", "--clients", "2", "a.jtl"}, {"--merge", "--target", "http://a", "a.jtl"},
		{"--target", "gateway:80"}, {"--target", "http://gateway/path"}, {"--target", "ftp://gateway"},
		{"--clients", "0"}, {"--processes", "0"}, {"--processes", "3", "--clients", "2"}, {"--think", "-1ms"},
		{"--think", "1500us"}, {"--duration", "0s"}, {"--duration", "1500ms"}, {"--output", "xml"},
	} {
		code := command.Run(context.Background(), newRoot(), append([]string{"perf", "jmeter"}, args...))
		require.Equal(t, command.ExitUsage, code, args)
	}
}

// TestWithoutJMeterNothingStarts: the error says what would help, and the target sees no request.
func TestWithoutJMeterNothingStarts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request for %s", r.URL)
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	t.Setenv("LATEEN_JMETER", "")
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	_, err := jmeterCommand(t, "--target", server.URL)
	require.EqualError(t, err,
		"there is no jmeter: 'make jmeter' puts it into .tools, or name one with --jmeter or $LATEEN_JMETER")
	t.Setenv("LATEEN_JMETER", "absent")
	_, err = jmeterCommand(t)
	require.EqualError(t, err, "absent is not an executable file; want the path of a binary of jmeter")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestATargetThatIsNoAirlineIsTold before JMeter is tried.
func TestATargetThatIsNoAirlineIsTold(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	program := filepath.Join(t.TempDir(), "jmeter")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexit 7\n"), 0o755)) //nolint:gosec // it is a program
	_, err := jmeterCommand(t, "--jmeter", program, "--target", server.URL)
	require.EqualError(t, err, server.URL+" is no gateway of the airline: POST /auth/login: 404 Not Found: 404 page "+
		"not found")
}

// TestMergePrintsResultsOfSeveralHosts, keeps them with --report, and fails if a request did.
func TestMergePrintsResultsOfSeveralHosts(t *testing.T) {
	dir := t.TempDir()
	const header = "timeStamp,elapsed,label,responseCode,success\n"
	for name, rows := range map[string]string{
		"a.jtl": "1000,10,Login,200,true\n1990,10,logout,200,true\n",
		"b.jtl": "1000,30,Login,503,false\n1980,20,logout,200,true\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(header+rows), 0o600))
	}
	t.Chdir(dir)
	out, err := jmeterCommand(t, "--merge", "a.jtl", "b.jtl", "-o", "yaml", "--report", "report")
	require.EqualError(t, err, "1 of 4 requests failed; the first: Login: 503")
	require.Contains(t, out, "command: lateen perf jmeter --merge --output yaml --report report a.jtl b.jtl\n")
	require.Contains(t, out, "  perSecond: 4\n  requests: 4\n")
	written, err := filepath.Glob("report/jmeter-*.json")
	require.NoError(t, err)
	require.Len(t, written, 1)
	require.FileExists(t, "report/index.html")

	_, err = jmeterCommand(t, "--merge", "a.jtl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("c.jtl", []byte("a,b\n1,2\n"), 0o600))
	_, err = jmeterCommand(t, "--merge", "c.jtl")
	require.ErrorContains(t, err, "c.jtl: line 1: there is no column timeStamp")
}
