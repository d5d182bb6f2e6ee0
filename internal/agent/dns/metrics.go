package dns

import "github.com/lateen-mesh/lateen/internal/agent/metrics"

// Metrics count what the proxy does. Those that pilot-agent has too have its names.
type Metrics struct {
	// Requests counts questions. istio_agent_dns_requests_total.
	Requests *metrics.Counter
	// Forwarded counts questions that went to resolvers, Failures those without an answer.
	// istio_agent_dns_upstream_requests_total, istio_agent_dns_upstream_failures_total.
	Forwarded, Failures *metrics.Counter
	// Duration is how long resolvers took.
	// istio_agent_dns_upstream_request_duration_seconds.
	Duration *metrics.Histogram
	// Refused counts questions that were refused because too many wait for resolvers.
	// lateen_agent_dns_refused_total.
	Refused *metrics.Counter
}

// NewMetrics registers the metrics of a proxy with a table, and the number of names in it:
// lateen_agent_dns_names.
func NewMetrics(r *metrics.Registry, table *Table) *Metrics {
	r.Gauge("lateen_agent_dns_names", "Names that the DNS proxy answers itself.",
		func() float64 { return float64(table.Len()) })
	return &Metrics{
		Requests:  r.Counter("istio_agent_dns_requests_total", "Questions to the DNS proxy."),
		Forwarded: r.Counter("istio_agent_dns_upstream_requests_total", "Questions that went to the Pod's resolvers."),
		Failures:  r.Counter("istio_agent_dns_upstream_failures_total", "Questions that no resolver answered."),
		Refused: r.Counter("lateen_agent_dns_refused_total",
			"Questions that were refused because too many wait for resolvers."),
		Duration: r.Histogram("istio_agent_dns_upstream_request_duration_seconds",
			"How long the resolvers of the Pod took.", .001, .005, .01, .1, 1, 5),
	}
}
