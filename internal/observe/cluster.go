package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Status are the metrics of what this replica writes into the cluster.
type Status struct {
	// Leader is 1 while this replica is the leader, which alone writes. lateen_leader.
	Leader prometheus.Gauge
	// Writes counts attempts to write an object's status, by result: "written", "unchanged",
	// "gone", "conflict" (retried), "error" (retried). lateen_status_writes_total.
	Writes *prometheus.CounterVec
	// Deployments counts objects that were to be applied for Gateways of the Gateway API, by
	// result: "applied", "removed", "foreign" (another manager has an object of this name),
	// "error" (retried).
	// lateen_gateway_objects_total.
	Deployments *prometheus.CounterVec
	// Pending is the number of objects in the queue of status checks. lateen_status_pending.
	Pending prometheus.Gauge
	// CertificateExpiry is when the serving certificate expires, in seconds since 1970.
	// lateen_serving_certificate_expiry_seconds.
	CertificateExpiry prometheus.Gauge
}

func newStatus(f promauto.Factory) Status {
	s := Status{
		Leader: gauge(f, "lateen_leader", "Whether this replica is the one that writes into the cluster."),
		Writes: counters(f, "lateen_status_writes_total", "Statuses of objects that were to be written.", "result"),
		Deployments: counters(f, "lateen_gateway_objects_total",
			"Objects that were to be applied for Gateways of the Gateway API.", "result"),
		Pending: gauge(f, "lateen_status_pending", "Objects whose status is to be looked at."),
		CertificateExpiry: gauge(f, "lateen_serving_certificate_expiry_seconds",
			"When the serving certificate ends, in seconds since 1970."),
	}
	for _, result := range []string{"written", "unchanged", "gone", "conflict", "error"} {
		s.Writes.WithLabelValues(result)
	}
	for _, result := range []string{"applied", "removed", "foreign", "error"} {
		s.Deployments.WithLabelValues(result)
	}
	return s
}
