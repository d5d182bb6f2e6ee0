package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Injection are the metrics of the injection of proxies.
type Injection struct {
	// Requests counts Pods that were asked about. sidecar_injection_requests_total.
	Requests prometheus.Counter
	// Injected, Skipped and Failed count Pods that got a proxy, that wanted none, and that were
	// refused. sidecar_injection_success_total, sidecar_injection_skip_total,
	// sidecar_injection_failure_total.
	Injected, Skipped, Failed prometheus.Counter
	// Time is how long a Pod took, in seconds. sidecar_injection_time_seconds.
	Time prometheus.Histogram
	// ConfigErrors counts configurations that could not be read and changed nothing.
	// lateen_injection_config_errors_total.
	ConfigErrors prometheus.Counter
}

func newInjection(f promauto.Factory) Injection {
	return Injection{
		Requests: counter(f, "sidecar_injection_requests_total", "Pods that were asked about."),
		Injected: counter(f, "sidecar_injection_success_total", "Pods that got a proxy."),
		Skipped:  counter(f, "sidecar_injection_skip_total", "Pods that wanted no proxy."),
		Failed:   counter(f, "sidecar_injection_failure_total", "Pods that were refused."),
		Time: histogram(f, "sidecar_injection_time_seconds", "Seconds that a Pod took.",
			.1, 1, 3, 5, 10, 20, 30, 60),
		ConfigErrors: counter(f, "lateen_injection_config_errors_total",
			"Configurations of the injection that could not be read."),
	}
}
