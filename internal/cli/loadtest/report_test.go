package loadtest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

func TestWithoutResultsThereIsNothingToBrowse(t *testing.T) {
	require.ErrorContains(t, browse(filepath.Join(t.TempDir(), fortioDir), "127.0.0.1:0"),
		"no results in Fortio's format: want what lateen perf data-plane --report DIR writes")
}

// saved is a directory as --report writes it, and the name of its result in Fortio's format.
func saved(t *testing.T) (dir, id string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, save(dir, dataplane.Report{
		Setup: dataplane.Setup{Kind: dataplane.Kind, Lateen: "v1", Start: time.Now()},
	}))
	result := traffic.Result{
		Load: traffic.Load{
			Label: "v1 sidecar", Connections: 2, Duration: time.Second, Target: traffic.Target{Protocol: traffic.HTTP1},
		},
		Start: time.Now(), Elapsed: time.Second, Sent: 2, Answered: 2,
		Latency: []time.Duration{time.Millisecond, 2 * time.Millisecond},
	}
	path, err := result.Fortio("v1").Save(filepath.Join(dir, fortioDir))
	require.NoError(t, err)
	return dir, strings.TrimSuffix(filepath.Base(path), ".json")
}

// TestFortiosBrowserShowsTheResults starts Fortio's own report browser as users do: it takes its
// version from how the program was built.
func TestFortiosBrowserShowsTheResults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	program, err := lateenserve.BuildLoadTest(t.TempDir())
	require.NoError(t, err)
	dir, id := saved(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())

	browser := exec.Command(program, "perf", "report", dir, "--serve", "--address", address)
	require.NoError(t, browser.Start())
	t.Cleanup(func() {
		require.NoError(t, browser.Process.Signal(os.Interrupt))
		require.NoError(t, browser.Wait(), "an interrupt is the way to end it")
	})
	require.FileExists(t, filepath.Join(dir, "index.html"))
	require.Contains(t, page(t, address, "/"), id)
	require.Contains(t, page(t, address, "/data/"+id+".json"), `"RunType": "HTTP"`)
}

// page returns a page of the browser, once it answers.
func page(t *testing.T, address, path string) (body string) {
	t.Helper()
	require.Eventually(t, func() bool {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return false
		}
		content, err := io.ReadAll(answer.Body)
		body = string(content)
		return errors.Join(err, answer.Body.Close()) == nil
	}, time.Minute, 20*time.Millisecond)
	return body
}
