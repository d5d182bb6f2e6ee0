package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Source are the metrics of the sources: what comes in.
type Source struct {
	// ConfigEvents counts changes of Istio's kinds, by kind and event ("add", "update", "delete").
	// pilot_k8s_cfg_events.
	ConfigEvents *prometheus.CounterVec
	// RegistryEvents counts changes of Kubernetes' kinds, by type ("Services", "Pods", "Nodes",
	// "EndpointSlice") and event ("add", "update", "updatesame", "delete"). pilot_k8s_reg_events.
	RegistryEvents *prometheus.CounterVec
	// Updates counts changes that reached the mesh state, by type: "config", "eds", "svc",
	// "svcdelete". pilot_inbound_updates.
	Updates *prometheus.CounterVec
	// Rejected counts errors in Gateways, by type ("gateway") and name.
	// pilot_total_rejected_configs.
	Rejected *prometheus.CounterVec
	// Watched counts events of an API server, by kind and result: "used", "same" (no field that is
	// used changed), "ignored" (a namespace outside the mesh). lateen_watch_events_total.
	Watched *prometheus.CounterVec
	// SyncErrors counts lists and watches that failed, by cluster. controller_sync_errors_total.
	SyncErrors *prometheus.CounterVec
	// Problems is the number of known mistakes, by severity ("error", "warning"). lateen_problems.
	Problems *prometheus.GaugeVec
}

// Keys are the metrics of fetching the keys of token issuers.
type Keys struct {
	// Fetched and Failed count sets of keys that were fetched, and that could not be.
	// pilot_jwks_resolver_network_fetch_success_total,
	// pilot_jwks_resolver_network_fetch_fail_total.
	Fetched, Failed prometheus.Counter
	// LeftOut is the number of sets for which the shares of the namespaces that name them have no
	// room. lateen_key_sets_left_out.
	LeftOut prometheus.Gauge
}

func newKeys(f promauto.Factory) Keys {
	return Keys{
		Fetched: counter(f, "pilot_jwks_resolver_network_fetch_success_total", "Sets of keys that were fetched."),
		Failed:  counter(f, "pilot_jwks_resolver_network_fetch_fail_total", "Sets of keys that could not be fetched."),
		LeftOut: gauge(f, "lateen_key_sets_left_out",
			"Sets of keys for which the shares of the namespaces that name them have no room."),
	}
}

func newSource(f promauto.Factory) Source {
	s := Source{
		ConfigEvents:   counters(f, "pilot_k8s_cfg_events", "Events from Istio's resources.", "type", "event"),
		RegistryEvents: counters(f, "pilot_k8s_reg_events", "Events from Kubernetes' resources.", "type", "event"),
		Updates:        counters(f, "pilot_inbound_updates", "Updates received by the pipeline.", "type"),
		Rejected:       counters(f, "pilot_total_rejected_configs", "Objects that had to be rejected.", "type", "name"),
		Watched: counters(f, "lateen_watch_events_total", "Events of an API server, by what became of them.",
			"type", "result"),
		SyncErrors: counters(f, "controller_sync_errors_total", "Lists and watches of an API server that failed.",
			"cluster"),
		Problems: gauges(f, "lateen_problems", "Mistakes in what users wrote, as of now.", "severity"),
	}
	for _, severity := range []string{"error", "warning"} {
		s.Problems.WithLabelValues(severity)
	}
	return s
}

// Mesh are the metrics of the mesh state and of the batches that change it.
type Mesh struct {
	// Generation is the number of the latest generation. lateen_generation.
	Generation prometheus.Gauge
	// Debounce is how long a batch waited for more changes, in seconds. pilot_debounce_time.
	Debounce prometheus.Histogram
	// Triggers counts the causes of pushes, by type ("endpoint", "config", "service", "proxy", …).
	// pilot_push_triggers.
	Triggers *prometheus.CounterVec
	// Apply is how long a batch takes to become a generation, in seconds.
	// pilot_pushcontext_init_seconds.
	Apply prometheus.Histogram

	Services             prometheus.Gauge   // pilot_services
	VirtualServices      prometheus.Gauge   // pilot_virt_services
	Subsets              prometheus.Gauge   // pilot_destrule_subsets
	DuplicateDomains     prometheus.Gauge   // pilot_vservice_dup_domain
	ServicesWithoutPods  prometheus.Gauge   // pilot_eds_no_instances
	EndpointsWithoutPod  prometheus.Gauge   // endpoint_no_pod: the same as EndpointsPendingPod
	EndpointsNotReady    prometheus.Gauge   // pilot_endpoint_not_ready
	EndpointsPendingPod  prometheus.Gauge   // pilot_k8s_endpoints_pending_pod
	EndpointsPodNotFound prometheus.Counter // pilot_k8s_endpoints_with_no_pods
}

func newMesh(f promauto.Factory) Mesh {
	return Mesh{
		Generation: gauge(f, "lateen_generation", "Number of the latest generation of the mesh."),
		Debounce: histogram(f, "pilot_debounce_time",
			"Delay in seconds between the first change of a batch and its end.",
			.01, .1, .5, 1, 3, 5, 10, 20, 30),
		Triggers: counters(f, "pilot_push_triggers", "Causes of pushes.", "type"),
		Apply: histogram(f, "pilot_pushcontext_init_seconds", "Seconds that a batch took to become a generation.",
			.01, .1, .5, 1, 3, 5),
		Services:             gauge(f, "pilot_services", "Services known."),
		VirtualServices:      gauge(f, "pilot_virt_services", "VirtualServices known."),
		Subsets:              gauge(f, "pilot_destrule_subsets", "Subsets of all DestinationRules."),
		DuplicateDomains:     gauge(f, "pilot_vservice_dup_domain", "VirtualServices with duplicate domains."),
		ServicesWithoutPods:  gauge(f, "pilot_eds_no_instances", "Clusters without endpoints."),
		EndpointsWithoutPod:  gauge(f, "endpoint_no_pod", "Endpoints without a Pod."),
		EndpointsNotReady:    gauge(f, "pilot_endpoint_not_ready", "Endpoints that are not ready."),
		EndpointsPendingPod:  gauge(f, "pilot_k8s_endpoints_pending_pod", "Endpoints whose Pod has not been seen yet."),
		EndpointsPodNotFound: counter(f, "pilot_k8s_endpoints_with_no_pods", "Endpoints whose Pod did not appear."),
	}
}

// Compile are the metrics of compilation and translation.
type Compile struct {
	// Classes is the number of classes of proxies that are compiled. lateen_classes.
	Classes prometheus.Gauge
	// TranslateCalls counts calls of translation functions, by kind ("cluster", "virtualhost", …)
	// and result: "hit" (the input was known), "miss" (run, with new bytes), "miss_equal" (run
	// needlessly: the bytes were the same). lateen_translate_calls_total.
	TranslateCalls *prometheus.CounterVec
	// Duration is how long a generation takes to become states of classes, in seconds.
	// lateen_compile_seconds.
	Duration prometheus.Histogram

	// ConfigLargest and ConfigSum are the bytes of the full configuration, by xDS type: of the
	// class that has most, and of all classes together. lateen_class_config_largest_bytes,
	// lateen_class_config_bytes.
	ConfigLargest, ConfigSum *prometheus.GaugeVec

	// PatchProxies is how many connected proxies have something that a patch of an EnvoyFilter
	// matches, and PatchResources how much they have of it, by the object and the patch's place in
	// it. lateen_patch_proxies, lateen_patch_resources.
	PatchProxies, PatchResources *prometheus.GaugeVec

	InboundConflicts  prometheus.Gauge // pilot_conflict_inbound_listener
	OutboundConflicts prometheus.Gauge // pilot_conflict_outbound_listener_tcp_over_current_tcp
	DuplicateClusters prometheus.Gauge // pilot_duplicate_envoy_clusters: hosts that another service has
}

func newCompile(f promauto.Factory) Compile {
	return Compile{
		Classes: gauge(f, "lateen_classes", "Classes of proxies now compiled."),
		TranslateCalls: counters(f, "lateen_translate_calls_total",
			"Calls of translation functions; miss_equal is work that changed nothing.", "kind", "result"),
		Duration: histogram(f, "lateen_compile_seconds", "Seconds that a generation took to become states of classes.",
			.0001, .001, .01, .1, 1, 10),
		ConfigLargest: gauges(f, "lateen_class_config_largest_bytes",
			"Bytes of the full configuration of the class of proxies that has most.", "type"),
		ConfigSum: gauges(f, "lateen_class_config_bytes",
			"Bytes of the full configurations of all classes of proxies.", "type"),
		PatchProxies: gauges(f, "lateen_patch_proxies",
			"Connected proxies that have something that a patch of an EnvoyFilter matches.", patchLabels()...),
		PatchResources: gauges(f, "lateen_patch_resources",
			"Resources of connected proxies that a patch of an EnvoyFilter matches.", patchLabels()...),
		InboundConflicts: gauge(f, "pilot_conflict_inbound_listener", "Inbound listeners that conflict."),
		OutboundConflicts: gauge(f, "pilot_conflict_outbound_listener_tcp_over_current_tcp",
			"TCP listeners that conflict with TCP listeners."),
		DuplicateClusters: gauge(f, "pilot_duplicate_envoy_clusters", "Clusters with the same name."),
	}
}

func patchLabels() []string { return []string{"kind", "namespace", "name", "patch"} }
