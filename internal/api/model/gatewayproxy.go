package model

import "slices"

// ProxyConfigAnnotation configures the proxy of a Pod, by the fields of Istio's ProxyConfig.
const ProxyConfigAnnotation = "proxy.istio.io/config"

// ConfiguresGatewayProxy reports whether an annotation of a Gateway's infrastructure reaches the
// Pods that are deployed for it. Those of the list configure the proxy. Others of istio.io steer
// the injection: who may create Gateways in a namespace would choose images, volumes and commands.
func ConfiguresGatewayProxy(annotation string) bool {
	return slices.Contains([]string{
		ProxyConfigAnnotation,
		"prometheus.istio.io/merge-metrics",
		"readiness.status.sidecar.istio.io/failureThreshold",
		"readiness.status.sidecar.istio.io/initialDelaySeconds",
		"readiness.status.sidecar.istio.io/periodSeconds",
		"sidecar.istio.io/agentLogLevel",
		"sidecar.istio.io/componentLogLevel",
		"sidecar.istio.io/logLevel",
		"sidecar.istio.io/proxyCPU",
		"sidecar.istio.io/proxyCPULimit",
		"sidecar.istio.io/proxyMemory",
		"sidecar.istio.io/proxyMemoryLimit",
	}, annotation)
}

// IsConfigurableOfGateway reports whether a Gateway's ProxyConfig may set a field. The rest is
// where the proxy gets its configuration and certificates from, its files, and what runs: that is
// for those who may run Pods with the gateway's account.
func IsConfigurableOfGateway(field string) bool {
	return slices.Contains([]string{
		"concurrency", "drainDuration", "envoyAccessLogService", "envoyMetricsService", "extraStatTags",
		"fileFlushInterval", "fileFlushMinSizeKb", "gatewayTopology", "holdApplicationUntilProxyStarts",
		"proxyHeaders", "proxyMetadata", "proxyStatsMatcher", "statNameLength", "statsCompression",
		"terminationDrainDuration", "tracing", "tracingServiceName",
	}, field)
}

// IsVariableOfGateway reports whether a Gateway's ProxyConfig may set a variable in proxyMetadata:
// the agent takes addresses, files and identities from others.
func IsVariableOfGateway(variable string) bool {
	return slices.Contains([]string{
		"EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "ISTIO_META_DNS_CAPTURE", "ISTIO_META_HTTP10",
		"ISTIO_META_IDLE_TIMEOUT", "MINIMUM_DRAIN_DURATION",
	}, variable)
}
