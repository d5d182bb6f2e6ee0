package lab

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// aroundAt runs the lab at the smallest size with some programs.
func aroundAt(t *testing.T, o Options) Report {
	t.Helper()
	l, err := Find("around")
	require.NoError(t, err)
	o.Self, err = os.Executable()
	require.NoError(t, err)
	o.Server = []string{lateen, "perf-control-plane", "--log-level", "warn"}
	o.Cluster.Serve = []string{lateen, "serve", "--log-level", "warn"}
	o.StateDir, o.Version, o.Scale, o.Pause = t.TempDir(), "test", 0.001, 0.1
	r, err := l.Run(t.Context(), o)
	require.NoError(t, err)
	requireComplete(t, l, r)
	return r
}

// cellsOf returns the figures of a row that were measured.
func cellsOf(r Row) (values []float64) {
	for _, c := range r.Cells {
		if c.Ours != nil {
			values = append(values, *c.Ours)
		}
	}
	return values
}

func TestAroundMeasuresWhatItHasProgramsFor(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a lab")
	}
	o := Options{Envoy: realenvoy.Binary(t)}
	for name, path := range map[string]*string{
		"kube": &o.Tools.Kube, "prometheus": &o.Tools.Prometheus, "promtool": &o.Tools.Promtool,
		"rsyslogd": &o.Tools.Rsyslogd,
	} {
		var err error
		*path, err = tool.Find(name)
		require.NoError(t, err)
	}
	tables := aroundAt(t, o).Tables
	if o.Tools.Kube != "" {
		for _, n := range ours(t, tables[apiServerTable], "API server memory") {
			require.Positive(t, n)
		}
		require.Positive(t, *tables[apiServerTable].Rows[apiChangesWatched].Cells[8].Ours, "Lateen watches")
	}
	proxy := tables[proxyTable]
	for i, n := range ours(t, proxy, "resident (RSS)") {
		own, pages := ours(t, proxy, "of it the proxy's own")[i], ours(t, proxy, "of it the program's pages")[i]
		require.InEpsilon(t, n, own+pages, 0.1)
	}
	heap := ours(t, proxy, "of it Lateen's configuration")
	require.Zero(t, heap[0])
	require.Greater(t, heap[len(heap)-1], heap[1], "more services take more")
	if o.Tools.Prometheus != "" {
		series := ours(t, tables[prometheusTable], "series")
		require.Zero(t, series[0])
		require.GreaterOrEqual(t, series[1], float64(6*proxySeries()))
		require.Positive(t, *tables[reckonedTable].Rows[0].Cells[2].Ours, "CPU")
	}
	sizes := cellsOf(tables[logTable].Rows[2])
	require.Greater(t, sizes[len(sizes)-1], 100e3, "1,000 lines of JSON have more than 100 bytes each")
}

func TestAroundLeavesOutWhatItHasNoProgramFor(t *testing.T) {
	r := aroundAt(t, Options{})
	for _, table := range r.Tables {
		for _, row := range table.Rows {
			require.Empty(t, cellsOf(row), table.Title)
		}
	}
	require.Len(t, r.Notes, 4)
	require.Equal(t, "The API server is not measured, since there is no kube-apiserver: make kube puts it into .tools.",
		r.Notes[0])
}

func TestMetricsOfAProxyGrow(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newProxyMetrics(7, now)
	require.Len(t, m.names, proxySeries())
	read := func(at time.Time) (values []uint64) {
		var text bytes.Buffer
		require.NoError(t, m.write(&text, at, ""))
		for line := range strings.Lines(text.String()) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
			require.True(t, ok, line)
			require.Contains(t, name, `reporter="source"`)
			n, err := strconv.ParseUint(value, 10, 64)
			require.NoError(t, err)
			values = append(values, n)
		}
		return values
	}
	first, second := read(now.Add(time.Minute)), read(now.Add(2*time.Minute))
	require.Len(t, first, proxySeries())
	buckets := len(metricBounds())
	for i := range first {
		require.GreaterOrEqual(t, second[i], first[i], m.names[i])
	}
	require.Positive(t, first[0])
	for i := 2; i < 1+buckets; i++ {
		require.GreaterOrEqual(t, second[i], second[i-1], "buckets are cumulative")
	}
	require.Equal(t, second[0], second[buckets], "the last bucket has all requests")
	require.Equal(t, second[0], second[buckets+2], "so has the count")
}

func TestPrometheusIsReckonedFromItsParts(t *testing.T) {
	r := &run{tables: aroundTables()}
	r.reckon(prometheusCost{base: 1e6, series: 100, memory: 1000, sample: 1e-6, disk: []float64{1, 2, 3}})
	rows := r.tables[reckonedTable].Rows
	require.InDeltaSlice(t, []float64{600_000, 40_000, 0.04, 601e6, 864e6, 3456e6, 51840e6}, cellsOf(rows[0]), 1)
	require.InDeltaSlice(t, []float64{600_000, 10_000, 0.01, 601e6, 648e6, 2592e6, 38880e6}, cellsOf(rows[2]), 1)
	r = &run{tables: aroundTables()}
	r.reckon(prometheusCost{series: 1})
	require.Len(t, cellsOf(r.tables[reckonedTable].Rows[0]), 4, "without blocks the disk is unknown")
}

func TestAccessLinesAreThoseOfRequests(t *testing.T) {
	const text = `[2026-01-01T00:00:00.000Z] "GET / HTTP/1.1" 200 -`
	dir := filepath.Join(t.TempDir(), "client-0")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "istio-proxy.log"), []byte(
		"[2026-01-01 00:00:00.000][1][warning][main] no limit\n"+text+"\n{\"method\":\"GET\"}\n\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "app.log"), []byte(text+"\n"), 0o600))
	lines, err := accessLines(dir, '[')
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte(text + "\n")}, lines)
	lines, err = accessLines(dir, '{')
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("{\"method\":\"GET\"}\n")}, lines)
	_, err = accessLines(t.TempDir(), '{')
	require.ErrorContains(t, err, "has written a line")
}

func TestReceiverCountsLines(t *testing.T) {
	to, err := startReceiver()
	require.NoError(t, err)
	c, err := net.Dial("tcp", to.listener.Addr().String())
	require.NoError(t, err)
	_, err = c.Write([]byte("one\ntwo\nthree"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return to.has(2)(t.Context()) == nil }, time.Minute, time.Millisecond)
	require.NoError(t, to.stop())
	require.ErrorContains(t, to.has(3)(t.Context()), "2 of 3 lines")
}
