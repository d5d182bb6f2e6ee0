package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Machines are the metrics of machines outside of Kubernetes that register themselves.
type Machines struct {
	// Registered counts WorkloadEntries that were made, Updated those whose machine has connected
	// again, Unregistered those whose machine has left, and Deleted those that were removed because
	// it did not come back. auto_registration_success_total, auto_registration_updates_total,
	// auto_registration_unregister_total, auto_registration_deletes_total.
	Registered, Updated, Unregistered, Deleted prometheus.Counter
	// Errors counts what could not be written, and machines that were refused.
	// auto_registration_errors_total.
	Errors prometheus.Counter
}

func newMachines(f promauto.Factory) Machines {
	return Machines{
		Registered: counter(f, "auto_registration_success_total", "WorkloadEntries that were made for a machine."),
		Updated: counter(
			f,
			"auto_registration_updates_total",
			"WorkloadEntries whose machine has connected again.",
		),
		Unregistered: counter(f, "auto_registration_unregister_total", "WorkloadEntries whose machine has left."),
		Deleted: counter(f, "auto_registration_deletes_total",
			"WorkloadEntries that were removed because their machine did not come back."),
		Errors: counter(f, "auto_registration_errors_total",
			"Machines that were refused, and WorkloadEntries that could not be written."),
	}
}
