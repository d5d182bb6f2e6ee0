package lab

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/istionames"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
)

// trafficWindow is how long each path is measured in each of trafficRounds.
const (
	trafficWindow = 10 * time.Second
	trafficRounds = 3
)

func dataPlaneLab() Lab {
	return Lab{
		Name:       "data-plane",
		About:      "what sidecars add to requests, and what they take for them",
		Document:   "Istio 1.1.8 (in the slides of KubeCon), performance and scalability of Istio 0.7.1, and AKS",
		Reproduces: "the figures of latency, CPU and memory of the data plane",
		Steps: []string{
			"a server, a client and their sidecars, which are real Envoys; requests go directly and through both",
			"the presets of lateen perf data-plane, and one with access logs",
		},
		Scale: 1, NeedsEnvoy: true,
		tables: dataPlaneTables,
		run:    runDataPlane,
	}
}

// trafficSetting is a row: a preset of lateen perf data-plane.
type trafficSetting struct {
	name, preset string
	logs         bool
	published    []string
}

func trafficSettings() []trafficSetting {
	return []trafficSetting{
		{"AKS: 1,000/s, 16 connections, 0.1 KB", "aks", false, []string{"", "", "0.4", "72 MB"}},
		{"Istio 1.1.8: 1,000/s, 16 connections, 1 kB", "istio-1.1.8", false, []string{"8 ms"}},
		{"Istio 0.7.1: 400/s", "istio-0.7.1", false, []string{"", "about 10 ms", "0.5 for 1,000/s"}},
		{"Istio 0.7.1, with access logs", "istio-0.7.1", true, []string{"", "", "1 for 1,000/s"}},
	}
}

func dataPlaneTables() []Table {
	t := Table{Title: "Through two sidecars", Columns: []Column{
		{"p90 added", Seconds}, {"p99 added", Seconds}, {"CPU of the client's proxy for 1,000/s", Cores},
		{"its memory", Bytes}, {"answered", Count},
	}}
	for _, s := range trafficSettings() {
		t.Rows = append(t.Rows, row(s.name, len(t.Columns), s.published...))
	}
	eight := Table{Title: "The eight scenarios of Istio 0.7.1, by the names of Fortio's results", Columns: []Column{
		{"requests", PerSecond}, {"p50", Seconds}, {"p99", Seconds}, {"p99 added", Seconds}, {"failed", Count},
	}}
	for _, s := range dataplane.Scenarios() {
		r := row(s.Name, len(eight.Columns))
		if s.Path == dataplane.Sidecar && s.QPS > 0 {
			r = row(s.Name, len(eight.Columns), "", "", "", "about 10 ms")
		}
		eight.Rows = append(eight.Rows, r)
	}
	return []Table{t, eight}
}

func runDataPlane(ctx context.Context, r *run) error {
	presets := dataplane.Presets()
	for i, s := range trafficSettings() {
		o := r.dataPlane(s.name, fmt.Sprint("mesh-", i))
		o.Rounds, o.AccessLogs = trafficRounds, s.logs
		at := slices.IndexFunc(presets, func(p dataplane.Preset) bool { return p.Name == s.preset })
		presets[at].Set(&o)
		report, err := dataplane.Run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		p := report.Cases[0].Paths[1]
		r.tables[0].put(i, p.Added.P90.Float(), p.Added.P99.Float(), p.Proxies[0].Cores(),
			float64(p.Proxies[0].Resident), float64(p.Answered))
	}
	if err := r.runScenarios(ctx); err != nil {
		return err
	}
	r.note("Client, server and both proxies share this machine. lateen perf data-plane has all percentiles, and what " +
		"two Envoys with a configuration by hand take for the same.")
	return nil
}

// dataPlane returns the options of a mesh with the path through both sidecars.
func (r *run) dataPlane(name, state string) dataplane.Options {
	return dataplane.Options{
		Envoy: r.Envoy, Self: r.Self, StateDir: filepath.Join(r.StateDir, state), IstioVersion: istionames.Version,
		Version: r.Version, Paths: []string{dataplane.Sidecar}, Rounds: 1, Telemetry: true,
		Duration: max(time.Second/2, time.Duration(float64(trafficWindow)*r.Pause)),
		Log:      slog.New(slog.DiscardHandler),
		Progress: func(what string, done, all int) { r.Progress(name+": "+what, done, all) },
	}
}

// runScenarios fills the table of the eight scenarios, in one mesh.
func (r *run) runScenarios(ctx context.Context) error {
	presets := dataplane.Presets()
	o := r.dataPlane("scenarios of Fortio", "mesh-scenarios")
	o.Duration /= 2
	first := dataplane.Scenarios()[0].Name
	presets[slices.IndexFunc(presets, func(p dataplane.Preset) bool { return p.Name == first })].Set(&o)
	o.QPS, o.Paths = nil, nil
	for _, s := range dataplane.Scenarios() {
		if !slices.Contains(o.QPS, s.QPS) {
			o.QPS = append(o.QPS, s.QPS)
		}
		if !slices.Contains(o.Paths, s.Path) {
			o.Paths = append(o.Paths, s.Path)
		}
	}
	report, err := dataplane.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("the scenarios of Fortio: %w", err)
	}
	for i, s := range dataplane.Scenarios() {
		for _, c := range report.Cases {
			for _, p := range c.Paths {
				if c.QPS == s.QPS && p.Path == s.Path {
					r.tables[1].put(i, p.QPS, p.Latency.P50.Float(), p.Latency.P99.Float(), p.Added.P99.Float(),
						float64(p.Failed))
				}
			}
		}
	}
	return nil
}
