package dataplane

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/traffic"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// quick measures every path for a moment.
func quick(t *testing.T, protocol traffic.Protocol) Options {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a mesh of real Envoys")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	return Options{
		Envoy: realenvoy.Binary(t), Self: self, StateDir: t.TempDir(), IstioVersion: "1.31.0", Version: "test",
		Protocol: protocol, Paths: Paths(), QPS: []float64{200}, Connections: []int{2}, Payload: 100,
		Duration: time.Second, Rounds: 2, MutualTLS: true, Workers: 2, Telemetry: true,
		Log: slog.New(slog.DiscardHandler),
	}
}

// TestEveryRequestIsAnsweredOnEveryPath measures each protocol on each path. What it requires are
// counts: times of a busy machine mean nothing.
func TestEveryRequestIsAnsweredOnEveryPath(t *testing.T) {
	for _, protocol := range []traffic.Protocol{traffic.HTTP1, traffic.HTTP2, traffic.GRPC, traffic.TCP} {
		t.Run(string(protocol), func(t *testing.T) {
			o := quick(t, protocol)
			if protocol == traffic.HTTP1 {
				o.Policies, o.AccessLogs, o.JSONLogs, o.Tracing, o.Sampling = 3, true, true, true, 50
			}
			r, err := Run(t.Context(), o)
			require.NoError(t, err)
			require.Len(t, r.Cases, 1)
			requirePlausible(t, r.Cases[0])
			require.Len(t, r.Cases[0].Statements, 2)
			requireFortioReads(t, r)
		})
	}
}

// TestScenariosLeadToTheClientToo sends requests against the usual direction.
func TestScenariosLeadToTheClientToo(t *testing.T) {
	o := quick(t, traffic.HTTP1)
	o.Paths, o.Rounds = []string{SidecarBack, IngressClient}, 1
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, r.Cases[0].Paths, 3)
	for _, p := range r.Cases[0].Paths {
		require.Equal(t, p.Sent, p.Answered, p.Path)
		require.Positive(t, p.Answered, p.Path)
	}
	o.Protocol = traffic.TCP
	require.ErrorContains(t, o.Validate(), "want a protocol other than tcp")
}

// requirePlausible requires that all requests of all paths were sent, answered and passed proxies.
func requirePlausible(t *testing.T, c Case) {
	t.Helper()
	require.Len(t, c.Paths, len(Paths()))
	for _, p := range c.Paths {
		require.Equal(t, 400, p.Sent+p.Unsent, p.Path)
		require.Equal(t, p.Sent, p.Answered, p.Path)
		require.Positive(t, p.Latency.P50, p.Path)
		require.GreaterOrEqual(t, p.Latency.P999, p.Latency.P50, p.Path)
		if p.Path == Baseline {
			require.Empty(t, p.Proxies)
			continue
		}
		require.NotNil(t, p.Added, p.Path)
		require.Len(t, p.Proxies, 2, p.Path)
		for _, x := range p.Proxies {
			require.Positive(t, x.CPU, "%s: %s", p.Path, x.Name)
			require.Positive(t, x.Resident, "%s: %s", p.Path, x.Name)
		}
	}
}

// requireFortioReads requires results in Fortio's format, which add up.
func requireFortioReads(t *testing.T, r Report) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, r.SaveFortio(dir))
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.Len(t, files, len(Paths()))
	for _, file := range files {
		encoded, err := os.ReadFile(file)
		require.NoError(t, err)
		var result traffic.FortioResult
		require.NoError(t, json.Unmarshal(encoded, &result))
		require.Positive(t, result.DurationHistogram.Count)
		require.Equal(t, int(result.DurationHistogram.Count), total(result.RetCodes), file)
		require.Equal(t, result.ID+".json", filepath.Base(file))
	}
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestMaximalLoadInPlaintext sends as many requests as get answers.
func TestMaximalLoadInPlaintext(t *testing.T) {
	o := quick(t, traffic.HTTP1)
	o.Paths, o.QPS, o.MutualTLS, o.Rounds = []string{Sidecar}, []float64{0}, false, 1
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	for _, p := range r.Cases[0].Paths {
		require.Positive(t, p.Answered, p.Path)
		require.Equal(t, p.Sent, p.Answered, p.Path)
	}
	require.Empty(t, r.Cases[0].Statements, "there is nothing to compare with")
}

// TestEachKnobIsMeasured: each is in force without a note of the control plane, and all requests
// are answered.
func TestEachKnobIsMeasured(t *testing.T) {
	o := quick(t, traffic.HTTP1)
	o.Rounds, o.Duration = 1, 2*time.Second // a stall of a moment leaves nothing unsent
	r, err := RunKnobs(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, r.Notes)
	require.Len(t, r.Knobs, len(knobs()))
	require.Equal(t, KnobOff, r.Knobs[0].Name)
	for _, k := range r.Knobs {
		require.Zero(t, k.Failed, k.Name)
		require.Positive(t, k.Caller, k.Name)
		require.Positive(t, k.Called, k.Name)
		require.Positive(t, k.Latency.P50, k.Name)
	}
	require.Len(t, r.Table().Rows, len(knobs()))
	logs, err := filepath.Glob(filepath.Join(o.StateDir, "pods", "pods", namespace, "server-*", "istio-proxy.log"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	var all strings.Builder
	for _, log := range logs { // of the proxies with two workers, and with one
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		all.Write(text)
	}
	require.Contains(t, all.String(), `"response_code":200`, "a line in JSON")
}
