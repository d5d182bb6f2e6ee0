package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// patience is how long anything may take.
const patience = 3 * time.Minute

// prometheus is a real one, which scrapes a control plane each second.
type prometheus struct {
	t       *testing.T
	address string
	began   time.Time
}

func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	binary := tool.Path(t, "prometheus", "prometheus")
	dir := t.TempDir()
	rules, err := filepath.Abs(rulesFile)
	require.NoError(t, err)
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- job_name: control-plane
  static_configs: [{targets: [%q], labels: {app: istiod}}]
`, rules, target)
	file := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	reserved, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(reserved.Release)
	p := &prometheus{t: t, began: time.Now(), address: reserved.Address}
	cmd := exec.Command(binary, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", p.address, "--log.level", "warn")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only if it has exited
		_ = cmd.Wait()
	})
	return p
}

// hasData reports whether a query has a number at some time since Prometheus has started.
func (p *prometheus) hasData(ctx context.Context, query string) (bool, error) {
	q := url.Values{"query": {query}, "step": {"1"}}
	q.Set("start", strconv.FormatInt(p.began.Unix(), 10))
	q.Set("end", strconv.FormatInt(time.Now().Unix(), 10))
	address := "http://" + p.address + "/api/v1/query_range?" + q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	require.NoError(p.t, err)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, nil // it has not started yet
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	if response.StatusCode == http.StatusServiceUnavailable {
		return false, nil
	}
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s: %s", query, text)
	}
	var answer struct {
		Data struct {
			Result []struct {
				Values [][2]any `json:"values"`
			} `json:"result"`
		} `json:"data"`
	}
	require.NoError(p.t, json.Unmarshal(text, &answer))
	for _, series := range answer.Data.Result {
		for _, v := range series.Values {
			number, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			if err == nil && !math.IsNaN(number) {
				return true, nil
			}
		}
	}
	return false, nil
}
