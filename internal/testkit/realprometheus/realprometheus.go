// Package realprometheus runs Prometheus for tests. It may import testkit/tool and perf/port; only
// tests import it.
package realprometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// Server is a Prometheus that runs until the end of the test.
type Server struct {
	Address string // host:port
	Began   time.Time
	t       testing.TB
}

// Start starts one with a configuration in YAML, and more flags.
func Start(t testing.TB, config string, flags ...string) *Server {
	t.Helper()
	binary := tool.Path(t, "prometheus", "prometheus")
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	reserved, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(reserved.Release)
	s := &Server{t: t, Began: time.Now(), Address: reserved.Address}
	cmd := exec.Command(binary, append([]string{
		"--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", s.Address, "--log.level", "warn",
	}, flags...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithParent()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only if it has exited
		_ = cmd.Wait()
	})
	return s
}

// At returns one that somebody else has started.
func At(t testing.TB, address string) *Server {
	return &Server{t: t, Began: time.Now(), Address: address}
}

// Get asks the API: "query", "query_range" and their like, and decodes the field "data" of the
// answer. It reports false while Prometheus has not started. What Prometheus refuses is an error.
func (s *Server) Get(ctx context.Context, what string, q url.Values, data any) (bool, error) {
	address := "http://" + s.Address + "/api/v1/" + what + "?" + q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusServiceUnavailable {
		return false, err
	}
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s: %s", q.Get("query"), text)
	}
	answer := struct {
		Data any `json:"data"`
	}{data}
	return true, json.Unmarshal(text, &answer)
}

// Sample is one series of an instant query. The value is as Prometheus writes it: a time and a
// number as text.
type Sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// Query returns the series that a query has now; none while Prometheus has not started.
func (s *Server) Query(ctx context.Context, query string) ([]Sample, error) {
	var answer struct {
		Result []Sample `json:"result"`
	}
	_, err := s.Get(ctx, "query", url.Values{"query": {query}}, &answer)
	return answer.Result, err
}
