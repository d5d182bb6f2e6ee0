package lateenserve

import (
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Metrics are those of the process at one time, by name.
type Metrics map[string]*dto.MetricFamily

// Metrics reads them.
func (p *Process) Metrics(t testing.TB) Metrics {
	t.Helper()
	families, err := measure.Scrape{URL: "http://" + p.Monitoring + "/metrics"}.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return Metrics(families)
}

// Sum adds up a counter or a gauge over all series that have these labels, given as name, value,
// name, value …
func (m Metrics) Sum(name string, labels ...string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		if has(metric, labels) {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return sum
}

func has(metric *dto.Metric, labels []string) bool {
	of := map[string]string{}
	for _, l := range metric.GetLabel() {
		of[l.GetName()] = l.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if of[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// Quantile is measure.Metrics' own.
func (m Metrics) Quantile(q float64, name string, since Metrics) float64 {
	return measure.Metrics(m).Quantile(q, name, measure.Metrics(since))
}

// Usage is what the process has used, and uses, as the kernel counts it.
func (p *Process) Usage(t testing.TB) measure.Usage {
	t.Helper()
	u, err := measure.PID(p.cmd.Process.Pid).Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}
