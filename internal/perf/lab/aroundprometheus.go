package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

const (
	// kubeconProxies is how many proxies KubeCon's mesh has, and maxScraped how many are scraped at
	// most: two CPUs have no room for all of them every second.
	kubeconProxies, maxScraped = 6000, 400
	// prometheusWindow is how long a Prometheus is measured once it has all series.
	prometheusWindow = 8 * time.Second
)

// prometheusSetting is a row: how often it scrapes, and whether there are proxies.
type prometheusSetting struct {
	name     string
	interval time.Duration
	proxies  bool
}

func prometheusSettings() []prometheusSetting {
	return []prometheusSetting{
		{name: "no proxies", interval: time.Second},
		{name: "every 4 s", interval: 4 * time.Second, proxies: true},
		{name: "every second", interval: time.Second, proxies: true},
	}
}

func prometheusTables() []Table {
	measured := Table{Title: "Prometheus, measured", Columns: []Column{
		{"series", Count}, {"samples", PerSecond}, {"memory", Bytes}, {"1,000 series", Bytes}, {"CPU", Cores},
		{"1,000 samples", Seconds},
	}}
	for _, s := range prometheusSettings() {
		measured.Rows = append(measured.Rows, row(s.name, len(measured.Columns)))
	}
	return []Table{measured, blockTableOf(), reckonedTableOf()}
}

// measurePrometheus fills the tables of Prometheus.
func (r *run) measurePrometheus(ctx context.Context) error {
	var cost prometheusCost
	for i, s := range prometheusSettings() {
		r.Progress("Prometheus: "+s.name, i, len(prometheusSettings()))
		p, err := r.scraping(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if i == 0 {
			cost.base = p.memory
		}
		r.tables[prometheusTable].put(i, p.figures(cost.base)...)
		if s.proxies {
			cost.memory, cost.sample = p.memoryOfSeries(cost.base), p.cpuOfSample()
			cost.series = p.series / float64(p.proxies)
		}
	}
	if err := r.measureBlocks(ctx, &cost); err != nil {
		return err
	}
	r.reckon(cost)
	r.note("Prometheus: measured are %d generated proxies with %.0f series each (Istio's standard metrics of calls to "+
		"%d services, and what Prometheus adds to a scrape; all counters grow), in the first seconds of a Prometheus "+
		"that nobody queries, without rules; and blocks of two hours, which promtool writes. Reckoned is the rest: "+
		"%s such proxies, at the CPU for a sample and the memory for a series that were measured every second, and at "+
		"the size of a sample in a block. A Prometheus that has run for hours needs more memory, for series that have "+
		"ended, for queries and while it joins blocks; joined blocks need less disk. What the published one scraped "+
		"is not known: Istio 1.1 scraped every 15 s and kept 6 h, and had Mixer's metrics beside those of proxies.",
		r.scrapedProxies(), cost.series, metricDestinations, thousands(kubeconProxies))
	return nil
}

// scrapedProxies is how many proxies there are.
func (r *run) scrapedProxies() int { return min(maxScraped, r.scaled(kubeconProxies, 2)) }

// scraped is what a Prometheus did in a window.
type scraped struct {
	proxies              int
	series, samples, cpu float64 // cpu in seconds
	memory               float64
	seconds              float64
}

func (s scraped) figures(base float64) []float64 {
	figures := []float64{s.series, s.samples / s.seconds, s.memory}
	if s.proxies == 0 { // it scrapes nothing
		return append(figures, math.NaN(), s.cpu/s.seconds, math.NaN())
	}
	return append(figures, 1000*s.memoryOfSeries(base), s.cpu/s.seconds, 1000*s.cpuOfSample())
}

func (s scraped) memoryOfSeries(base float64) float64 {
	return max(0, s.memory-base) / max(1, s.series)
}

func (s scraped) cpuOfSample() float64 { return s.cpu / max(1, s.samples) }

// scraping measures a Prometheus.
func (r *run) scraping(ctx context.Context, s prometheusSetting) (_ scraped, err error) {
	proxies := 0
	if s.proxies {
		proxies = r.scrapedProxies()
	}
	targets, err := startTargets(proxies)
	if err != nil {
		return scraped{}, err
	}
	defer func() { err = errors.Join(err, targets.stop()) }()
	d, at, err := r.startPrometheus(s, targets)
	if err != nil {
		return scraped{}, err
	}
	defer d.stop()
	metrics := measure.Scrape{URL: "http://" + at + "/metrics"}
	want := float64(proxies * proxySeries())
	err = d.await(ctx, r.Patience, func(ctx context.Context) error {
		m, err := metrics.Metrics(ctx)
		if have := m.Sum("prometheus_tsdb_head_series"); err == nil && have < want {
			err = fmt.Errorf("it has %.0f of %.0f series", have, want)
		}
		return err
	})
	if err != nil {
		return scraped{}, err
	}
	return r.scrapeWindow(ctx, proxies, d.pid(), metrics)
}

// scrapeWindow measures a Prometheus that has all series.
func (r *run) scrapeWindow(
	ctx context.Context, proxies int, process measure.PID, metrics measure.Scrape,
) (scraped, error) {
	const appended = "prometheus_tsdb_head_samples_appended_total"
	var m [2]measure.Metrics
	var u [2]measure.Usage
	for i := range m {
		if i > 0 {
			if err := r.pause(ctx, prometheusWindow); err != nil {
				return scraped{}, err
			}
		}
		var err error
		if m[i], err = metrics.Metrics(ctx); err != nil {
			return scraped{}, err
		}
		if u[i], err = process.Usage(ctx); err != nil {
			return scraped{}, err
		}
	}
	return scraped{
		proxies: proxies, series: m[1].Sum("prometheus_tsdb_head_series"),
		samples: m[1].Sum(appended) - m[0].Sum(appended), cpu: (u[1].CPU - u[0].CPU).Seconds(),
		memory: float64(u[1].Resident), seconds: u[1].At.Sub(u[0].At).Seconds(),
	}, nil
}

// startPrometheus starts one, and returns where it serves.
func (r *run) startPrometheus(s prometheusSetting, t *targets) (*daemon, string, error) {
	dir, err := os.MkdirTemp(r.StateDir, "prometheus-")
	if err != nil {
		return nil, "", err
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: %[1]v, scrape_timeout: %[1]v}\n"+
		"scrape_configs:\n- job_name: proxies\n  static_configs:\n", s.interval)
	for n := range t.proxies {
		fmt.Fprintf(&config, "  - {targets: [%q], labels: {instance: proxy-%d, __metrics_path__: %s%[2]d}}\n",
			t.address, n, targetPath)
	}
	if len(t.proxies) == 0 {
		config.WriteString("  - targets: []\n")
	}
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, "", err
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
	d, err := startDaemon(dir, "prometheus", r.Tools.Prometheus, "--config.file", file,
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", at, "--log.level", "warn")
	return d, at, err
}

// targets serve the metrics of proxies, each at a path of its own.
type targets struct {
	address string
	proxies []*proxyMetrics
	server  *http.Server
}

const targetPath = "/metrics/"

func startTargets(proxies int) (*targets, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &targets{address: l.Addr().String()}
	for n := range proxies {
		t.proxies = append(t.proxies, newProxyMetrics(n, time.Now()))
	}
	t.server = &http.Server{Handler: http.HandlerFunc(t.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = t.server.Serve(l) }() // until it is closed
	return t, nil
}

func (t *targets) serve(w http.ResponseWriter, request *http.Request) {
	n, err := strconv.Atoi(strings.TrimPrefix(request.URL.Path, targetPath))
	if err != nil || n < 0 || n >= len(t.proxies) {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_ = t.proxies[n].write(w, time.Now(), "") // who asks has gone
}

func (t *targets) stop() error { return t.server.Close() }
