package istionames

// Field is a field of a node's metadata, as Istio's agent sends it from ISTIO_META_* and from what
// it knows of the Pod.
type Field struct {
	Name string
	// Agent is set if it is the agent that reads it, or refuses it, and not the control plane.
	Agent bool
	// Why says why it changes nothing; empty for one that is in force.
	Why string
}

// Why fields of nodes are not in force.
const (
	onlyKept    = "has no effect, as in istiod, but on the match of an EnvoyFilter"
	filesOfNode = "has no effect; want FILE_MOUNTED_CERTS for certificates in files"
	notYet      = "has no effect yet"
	unsecured   = "is refused by the agent: metrics are not served over mutual TLS"
)

// NodeMetadata returns the fields that istiod knows by name. Others are kept, and have no effect.
func NodeMetadata() []Field {
	var all []Field
	add := func(agent bool, why string, names ...string) {
		for _, name := range names {
			all = append(all, Field{name, agent, why})
		}
	}
	add(false, "",
		"ANNOTATIONS", "CLUSTER_ID", "DNS_CAPTURE", "ENVOY_STATUS_PORT", "HTTP10", "HTTP_PROXY_PORT", "INSTANCE_IPS",
		"INTERCEPTION_MODE", "ISTIO_VERSION", "LABELS", "NAMESPACE", "NODE_NAME", "PROXY_CONFIG", "SERVICE_ACCOUNT",
		"AUTO_REGISTER_GROUP", "NETWORK", "WORKLOAD_ENTRY")
	add(true, "",
		"DNS_PROXY_ADDR", "ENVOY_PROMETHEUS_PORT", "ENVOY_SKIP_DEPRECATED_LOGS", "EXIT_ON_ZERO_ACTIVE_CONNECTIONS",
		"OUTLIER_LOG_PATH",
		"WORKLOAD_IDENTITY_SOCKET_FILE", "WORKLOAD_NAME")
	add(false, onlyKept,
		"APP_CONTAINERS", "BASE", "CLOUDRUN_ADDR", "ISTIO_REVISION", "MESH_ID", "OWNER", "PLATFORM_METADATA",
		"POD_PORTS", "PROV_CERT", "STS_PORT")
	add(false, notYet,
		"ENABLE_SELF_DISCOVERY", "IDLE_TIMEOUT", "INBOUND_LISTENER_EXACT_BALANCE", "OUTBOUND_LISTENER_EXACT_BALANCE",
		"STATIC_LABELS")
	add(false, "has no effect: hosts without addresses get one where DNS_CAPTURE is set", "DNS_AUTO_ALLOCATE")
	add(false, "has no effect: a gateway opens each port that its Gateways name", "UNPRIVILEGED_POD")
	add(false, "has no effect: what a stream asks for is told by its types", "GENERATOR")
	add(false, oneCluster, "REQUESTED_NETWORK_VIEW")
	add(false, noAmbient, "DISABLE_HBONE_SEND", "ENABLE_HBONE", "METADATA_DISCOVERY")
	add(false, filesOfNode,
		"TLS_CLIENT_CERT_CHAIN", "TLS_CLIENT_KEY", "TLS_CLIENT_ROOT_CERT", "TLS_SERVER_CERT_CHAIN", "TLS_SERVER_KEY",
		"TLS_SERVER_ROOT_CERT")
	add(true, unsecured, "ENVOY_SECURE_MERGED_METRICS_PORT", "ENVOY_SECURE_METRICS_PORT")
	return all
}
