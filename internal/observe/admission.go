package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Admission are the metrics of the validating webhook.
type Admission struct {
	// Passed counts allowed objects by group, version and resource. galley_validation_passed.
	Passed *prometheus.CounterVec
	// Failed counts refused objects by group, version, resource and reason ("yaml_decode_error",
	// "invalid_resource", "over_budget"). galley_validation_failed.
	Failed *prometheus.CounterVec
	// HTTPErrors counts requests that got no decision, by HTTP status.
	// galley_validation_http_error.
	HTTPErrors *prometheus.CounterVec
	// ConfigUpdates counts updates of the webhook's configuration in the cluster.
	// galley_validation_config_updates.
	ConfigUpdates prometheus.Counter
	// ConfigUpdateErrors counts failed updates, by the API server's reason.
	// galley_validation_config_update_error.
	ConfigUpdateErrors *prometheus.CounterVec
	// ClientsRefused counts connections to the webhook that were refused because of the client's
	// certificate, by reason ("no_certificate", "unverified", "name").
	// lateen_webhook_clients_refused_total.
	ClientsRefused *prometheus.CounterVec
}

func newAdmission(f promauto.Factory) Admission {
	return Admission{
		Passed: counters(f, "galley_validation_passed", "Resources that are valid.", "group", "version",
			"resource"),
		Failed: counters(f, "galley_validation_failed", "Resources that are not valid.", "group", "version",
			"resource", "reason"),
		HTTPErrors: counters(f, "galley_validation_http_error", "Requests for validation that failed as such.",
			"status"),
		ConfigUpdates: counter(f, "galley_validation_config_updates", "Updates of the webhook's configuration."),
		ConfigUpdateErrors: counters(f, "galley_validation_config_update_error",
			"Updates of the webhook's configuration that failed.", "reason"),
		ClientsRefused: counters(f, "lateen_webhook_clients_refused_total",
			"Connections to the webhook that were refused because of the client's certificate.", "reason"),
	}
}
