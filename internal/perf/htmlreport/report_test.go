package htmlreport

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
	"github.com/lateen-mesh/lateen/internal/perf/lab"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/testkit/browser"
)

// hostile is a name that would run a script if a page took it for markup.
const hostile = `</script><img src=x onerror=alert(1)>`

// version is a data-plane report of a version, whose p99 is so many milliseconds.
func version(name string, p99 int) dataplane.Report {
	path := func(name string, ms int, proxies ...dataplane.Proxy) dataplane.PathResult {
		at := measure.Seconds(time.Duration(ms) * time.Millisecond)
		return dataplane.PathResult{
			Path: name, Sent: 10, Answered: 10, QPS: 1000, Proxies: proxies,
			Latency: dataplane.Latency{P50: at / 2, P75: at / 2, P90: at / 2, P99: at, P999: at},
		}
	}
	proxy := dataplane.Proxy{Name: "client", CPU: measure.Seconds(time.Second), Requests: 10_000, Resident: 7e7}
	r := dataplane.Report{Setup: dataplane.Setup{Kind: dataplane.Kind, Lateen: name, Protocol: "http"}}
	for _, connections := range []int{2, 16} {
		r.Cases = append(r.Cases, dataplane.Case{
			QPS: 1000, Connections: connections,
			Paths: []dataplane.PathResult{path(dataplane.Baseline, 1), path(dataplane.Sidecar, p99, proxy)},
		})
	}
	return r
}

// directory has two versions of a data plane, a scenario with sidecars, and a file of another kind.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, v := range map[string]any{
		"a.json": version("v1", 3), "b.json": version(hostile, 5),
		"c.json": perf.Report{Scenario: "routes", Command: "lateen perf routes", Phases: []perf.Phase{{
			Name: "routes", CPU: measure.Seconds(time.Second),
			Latency: &measure.Summary{P99: measure.Seconds(time.Second)},
		}}},
		"e.json": advise.Report{Kind: advise.Kind, Findings: []advise.Finding{{
			Rule: "sidecar", Summary: hostile, Effects: []advise.Effect{{What: "clusters", Before: 124, After: 14}},
			Remedy: advise.Remedy{Manifests: "kind: Sidecar\n", Variables: map[string]string{"A": "b"}},
		}}, Signals: []advise.SignalState{{Signal: advise.Latency, State: advise.Off, Evidence: []advise.Evidence{
			{Metric: "p99", Value: 1.5, Threshold: 1, Unit: "s", Off: true},
		}}}},
		"lab.json": aLab(),
		"d.json":   map[string]any{"rows": []any{map[string]any{"name": "something else"}}},
	} {
		encoded, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), encoded, 0o600))
	}
	return dir
}

// aLab is the report of a lab, with one figure and a published one.
func aLab() lab.Report {
	ours := 0.5
	return lab.Report{
		Kind: lab.Kind, Lab: "book", Lateen: "v1", Command: "lateen perf lab book", Scale: 1, Notes: []string{hostile},
		Tables: []lab.Table{{
			Title: "Pushes", Columns: []lab.Column{{Name: "latency", Unit: lab.Seconds}},
			Rows: []lab.Row{
				{Name: "as is", Cells: []lab.Cell{{Ours: &ours, Published: "0.0990 s"}}},
				{Name: "scoped", Cells: []lab.Cell{{Published: "0.0990 s"}}},
			},
		}},
	}
}

func TestLabsHaveThePublishedFiguresBesideThem(t *testing.T) {
	sections := labSections([]lab.Report{aLab(), aLab()})
	require.Len(t, sections, 1)
	require.Len(t, sections[0].Charts, 1)
	require.Len(t, sections[0].Charts[0].Series, 2)
	require.Nil(t, sections[0].Charts[0].Series[0].Values[1])
	require.Equal(t, htmlpage.Table{
		Header: []string{"lateen v1: Pushes", "Lateen", "published", "ratio"},
		Rows: [][]string{
			{"as is", "", "", ""}, {"latency", "500 ms", "0.0990 s", "5.05"},
			{"scoped", "", "", ""}, {"latency", "-", "0.0990 s", "-"},
		},
	}, sections[0].Tables[0])
}

func TestVersionsAreSideBySide(t *testing.T) {
	dir := directory(t)
	var r reports
	for _, name := range []string{"a.json", "b.json", "c.json", "d.json", "e.json"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, r.add(name, content))
	}
	p := r.page("test")
	require.Len(t, p.Sections, 4)
	require.Equal(t, []string{"latency", "off", "p99", "1.5 s", "1 s"}, p.Sections[0].Tables[0].Rows[0])
	require.Equal(t, []string{"sidecar", hostile, "clusters: 124 -> 14", "A=b\nkind: Sidecar\n"},
		p.Sections[0].Tables[1].Rows[0])
	p.Sections = p.Sections[1:]
	charts := p.Sections[0].Charts
	require.Len(t, charts, 5, "two cases, p99 by connections, CPU, memory")
	require.Equal(t, "Latency: 1000 requests/s, 2 connections", charts[0].Title)
	require.Len(t, charts[0].Series, 4, "two paths of two versions")
	require.InDelta(t, 5, *charts[0].Series[3].Values[3], 1e-9)
	require.Equal(t, []string{"2", "16"}, charts[2].Categories)
	require.InDelta(t, 0.1, *charts[3].Series[0].Values[0], 1e-9)
	require.Equal(t, "Control plane: routes", p.Sections[1].Title)
	require.Equal(t, [][]string{{"rows[0].name", "something else"}}, p.Sections[2].Tables[0].Rows)
}

// TestEachKindOfReportIsDrawn: with charts, and with versions side by side.
func TestEachKindOfReportIsDrawn(t *testing.T) {
	at := measure.Seconds(time.Second)
	knobs := func(lateen string, ratio float64) dataplane.KnobReport {
		return dataplane.KnobReport{
			Setup: dataplane.Setup{Kind: dataplane.KnobsKind, Lateen: lateen},
			Knobs: []dataplane.KnobResult{
				{Name: "off", Caller: 0.1, Called: 0.2, Ratio: 1},
				{Name: "metrics", Caller: 0.2, Called: 0.2, Ratio: ratio, Latency: dataplane.Latency{P99: at}},
			},
		}
	}
	var r reports
	for _, v := range []any{
		knobs("v1", 1.2), knobs("v2", 1.1),
		perf.PressureReport{Lateen: "v1", Command: "lateen perf pressure", Rows: []perf.PressurePairs{{
			Disturbance: "x", Ratios: []float64{1, 3, 2},
			Without: []perf.PressureRun{{Latency: measure.Summary{P99: at}}},
			With:    []perf.PressureRun{{Latency: measure.Summary{P99: at}}},
		}}},
		map[string]any{"kind": "control-plane", "lateen": "v1", "pushCount": 30, "latencyP99Seconds": 0.099},
		map[string]any{"kind": "control-plane", "lateen": "v2", "pushCount": 20},
		map[string]any{"kind": "constants", "version": "v1", "serviceBytes": 7000.0,
			"connect": map[string]any{"cpuSeconds": 1e-3, "bytesToSidecar": 5e3},
			"change":  map[string]any{"endpoints": map[string]any{"cpuSeconds": 35e-6}}},
		map[string]any{"kind": "model", "lateen": "v1", "estimates": []any{
			map[string]any{"mesh": map[string]any{"sidecars": 1000}, "replicas": 2},
			map[string]any{"mesh": map[string]any{"sidecars": 5000}, "replicas": 3},
		}},
	} {
		encoded, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, r.add("x.json", encoded))
	}
	p := r.page("test")
	drawn := map[string]string{}
	for _, s := range p.Sections {
		require.NotEmpty(t, s.Tables, s.Title)
		for _, c := range s.Charts {
			var text strings.Builder
			for i, series := range c.Series {
				for j, v := range series.Values {
					if v != nil {
						fmt.Fprintf(&text, "%s %s %.4g; ", c.Series[i].Name, c.Categories[j], *v)
					}
				}
			}
			drawn[s.Title+": "+c.Title] = text.String()
		}
	}
	const book, costs, knob = `The test of "Istio in Action": `, "What one of each costs: ",
		"What metrics, logs and traces cost: "
	require.Equal(t, map[string]string{
		knob + "CPU of both proxies for 1,000 requests/s": "lateen v1 off 0.3; lateen v1 metrics 0.4; " +
			"lateen v2 off 0.3; lateen v2 metrics 0.4; ",
		knob + "CPU for a request, times that of everything off": "lateen v1 off 1; lateen v1 metrics 1.2; " +
			"lateen v2 off 1; lateen v2 metrics 1.1; ",
		"Pressure: Change to sidecar, p99, times that of a run alone": " v1 x 2; ",
		book + "Push count":                      "lateen v1 pushes 30; lateen v2 pushes 20; ",
		book + "Latency in the last minute, p99": "lateen v1 latency 99; ",
		costs + "Memory":                         "lateen v1 a service 7; ",
		costs + "CPU": "lateen v1 a sidecar connects 1000; " +
			"lateen v1 a change: endpoints 35; ",
		costs + "To a sidecar":             "lateen v1 a sidecar connects 5; ",
		"What a mesh would need: Replicas": "lateen v1 1000 sidecars 2; lateen v1 5000 sidecars 3; ",
	}, drawn)
}

func TestADirectoryWithoutReportsIsAnError(t *testing.T) {
	dir := t.TempDir()
	_, err := Write(dir)
	require.ErrorContains(t, err, "has no *.json: want what lateen perf")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.json"), []byte("{"), 0o600))
	_, err = Write(dir)
	require.ErrorContains(t, err, "x.json: want a report of lateen perf in JSON")
}

func TestThePageFetchesNothing(t *testing.T) {
	path, err := Write(directory(t))
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	page := string(content)
	require.Contains(t, page, `content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'`)
	require.NotRegexp(t, regexp.MustCompile(`<(script|img|iframe)[^>]* src=|<link|@import|url\(`), page[:20_000])
	require.NotContains(t, page, hostile)
	require.Contains(t, page, "Apache License")
}

// TestABrowserDrawsTheCharts opens the file in a headless Chromium, without a network.
func TestABrowserDrawsTheCharts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	path, err := Write(directory(t))
	require.NoError(t, err)
	dom := browser.DOM(t, path)
	require.Equal(t, 8, strings.Count(dom, "<svg "), "each chart is drawn")
	for _, text := range []string{
		"Latency: 1000 requests/s, 2 connections", "p99 by connections", "CPU of a proxy for 1,000 requests/s",
		"Change to sidecar, p99", "lateen v1 sidecar", "something else",
	} {
		require.Contains(t, dom, text)
	}
	require.NotContains(t, dom, `<img src="x"`, "no name is markup")
}
