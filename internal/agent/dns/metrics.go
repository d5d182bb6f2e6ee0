package dns

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count what the proxy does. Those that Istio's agent has too have its names.
type Metrics struct {
	// Requests counts questions. dns_requests_total.
	Requests prometheus.Counter
	// Forwarded counts questions that went to resolvers, Failures those without an answer.
	// dns_upstream_requests_total, dns_upstream_failures_total.
	Forwarded, Failures prometheus.Counter
	// Duration is how long resolvers took, in seconds. dns_upstream_request_duration_seconds.
	Duration prometheus.Histogram
	// Refused counts questions that were refused because too many wait for resolvers.
	// lateen_agent_dns_refused_total.
	Refused prometheus.Counter
	// Names is the number of names in the table. lateen_agent_dns_names.
	Names prometheus.GaugeFunc
}

// NewMetrics registers the metrics of a proxy with a table.
func NewMetrics(r prometheus.Registerer, table *Table) *Metrics {
	f := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Metrics{
		Requests:  counter("dns_requests_total", "Questions to the DNS proxy."),
		Forwarded: counter("dns_upstream_requests_total", "Questions that went to the resolvers of the Pod."),
		Failures:  counter("dns_upstream_failures_total", "Questions that no resolver answered."),
		Refused: counter("lateen_agent_dns_refused_total",
			"Questions that were refused because too many wait for resolvers."),
		Duration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "dns_upstream_request_duration_seconds",
			Help:    "How long the resolvers of the Pod took.",
			Buckets: []float64{.001, .005, .01, .1, 1, 5},
		}),
		Names: f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lateen_agent_dns_names",
			Help: "Names that the DNS proxy answers itself.",
		}, func() float64 { return float64(table.Len()) }),
	}
}
