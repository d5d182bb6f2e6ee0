package config

import "strings"

// Reasons that several variables have.
const (
	noAmbient   = "ambient is not served"
	oneCluster  = "one cluster is served"
	noCache     = "there is no such cache: what is computed stays with what it was computed from"
	noWasm      = "agents fetch Wasm modules: it is a variable of `lateen-agent` (docs/agent.md)"
	noInference = "InferencePools are not served"
	noFilter    = "this filter is not part of the Envoys that Lateen drives"
	notSniffed  = "Istio's ALPN filter is not part of stock Envoy; servers tell HTTP from bytes by themselves"
)

// honoured are those that FromEnv reads. LATEEN_* and names that Istio reads elsewhere are none of
// istiod's.
func honoured() []Variable {
	return []Variable{
		{Name: "BLOCKED_CIDRS_IN_JWKS_URIS", Why: "networks that are not public are blocked of themselves"},
		{Name: "CA_TRUSTED_NODE_ACCOUNTS"},
		{Name: "CERT_SIGNER_DOMAIN"},
		{Name: "CLUSTER_ID", Default: "Kubernetes", Why: "by the flag --cluster-id too"},
		{Name: "COMPLIANCE_POLICY"},
		{Name: "ENABLE_CA_SERVER", Default: "true"},
		{Name: "ENABLE_DEBUG_ON_HTTP", Default: "true", Why: "on loopback addresses alone; over xDS by identity"},
		{Name: "ENABLE_NATIVE_SIDECARS", Default: "auto"},
		{Name: "ISTIO_DUAL_STACK", Default: "false"},
		{Name: "ISTIO_GPRC_MAXRECVMSGSIZE", Default: "4194304", Why: "here the default is 8 MiB"},
		{Name: "PILOT_CA_CERT_CONFIGMAP", Default: "istio-ca-root-cert"},
		{Name: "PILOT_CERT_PROVIDER", Default: "istiod", Why: "k8s.io/SIGNER; other values mean istiod"},
		{Name: "PILOT_DEBOUNCE_AFTER", Default: "100ms"},
		{Name: "PILOT_DEBOUNCE_MAX", Default: "10s"},
		{Name: "PILOT_ENABLE_CA_CRL", Default: "true"},
		{Name: "PILOT_ENABLE_EDS_DEBOUNCE", Default: "true"},
		{Name: "PILOT_ENABLE_PERSISTENT_SESSION_FILTER", Default: "false"},
		{Name: "PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", Default: "true"},
		{Name: "PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION", Default: "true"},
		{Name: "PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS", Default: "true"},
		{Name: "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG", Default: "false", Why: "here the default is true"},
		{Name: "PILOT_HTTP10", Default: "false"},
		{Name: "PILOT_IP_AUTOALLOCATE_IPV4_PREFIX", Default: "240.240.0.0/16"},
		{Name: "PILOT_IP_AUTOALLOCATE_IPV6_PREFIX", Default: "2001:2::/48"},
		{Name: "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", Default: "20m"},
		{Name: "PILOT_MAX_REQUESTS_PER_SECOND", Default: "0", Why: "counts streams that begin"},
		{Name: "PILOT_PUSH_THROTTLE", Default: "0"},
		{Name: "PILOT_SCOPE_GATEWAY_TO_NAMESPACE", Default: "false"},
		{Name: "PILOT_SEND_UNHEALTHY_ENDPOINTS", Default: "false"},
		{Name: "PILOT_SIDECAR_USE_REMOTE_ADDRESS", Default: "false"},
		{Name: "PILOT_TRACE_SAMPLING", Default: "1.0"},
		{Name: "PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", Default: "10s"},
	}
}

// fixed makes a Variable that has one value here.
func fixed(name, standard, is, why string) Variable {
	return Variable{Name: name, Default: standard, Stance: Fixed, Is: is, Why: why}
}

// fixedDiscovery are about what is read and how it is sent.
func fixedDiscovery() []Variable {
	return []Variable{
		fixed("ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT", "true", "true",
			"a Gateway may name a Service that is there already"),
		fixed("ENABLE_LEADER_ELECTION", "true", "true", "replicas always elect who writes"),
		fixed("ENABLE_PROXY_FIND_POD_BY_IP", "false", "false", "a proxy is the Pod that its token names"),
		fixed("ENABLE_SELECTOR_BASED_K8S_GATEWAY_POLICY", "true", "true",
			"policies select Gateways' Pods by labels too"),
		fixed("ISTIO_DELTA_XDS", "true", "true", "a proxy gets what it asks for: deltas, or the state of the world"),
		fixed("ISTIO_KUBE_CLIENT_CONTENT_TYPE", "protobuf", "protobuf", "Kubernetes' own kinds come as protobuf"),
		fixed("ISTIO_WATCH_NAMESPACE", "", "",
			"discoverySelectors of the mesh configuration choose what is read"),
		fixed("PILOT_ENABLE_GATEWAY_API", "true", "true",
			"the Gateway API is served where its kinds are installed"),
		fixed("PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS", "true", "true",
			"labels and annotations of a Gateway without `infrastructure` come to its Deployment"),
		fixed("PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER", "true", "true",
			"the control plane makes its GatewayClass"),
		fixed("PILOT_ENABLE_GATEWAY_API_STATUS", "true", "true", "the status of the Gateway API is always written"),
		fixed("PILOT_ENABLE_IP_AUTOALLOCATE", "true", "true",
			"hosts without addresses get one; the label networking.istio.io/enable-autoallocate-ip of an object "+
				"turns it off"),
		fixed("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", "true", "true", "Services select WorkloadEntries too"),
		fixed("PILOT_ENABLE_SERVICEENTRY_SELECT_PODS", "true", "true", "ServiceEntries select Pods too"),
		fixed("PILOT_ENABLE_STRICT_GATEWAY_MERGING", "true", "true",
			"a Gateway of the Gateway API shares no Pods with Gateways of other namespaces"),
		fixed("PILOT_GATEWAY_API_CONTROLLER_NAME", "istio.io/gateway-controller", "istio.io/gateway-controller",
			"the name is fixed"),
		fixed("PILOT_GATEWAY_API_DEFAULT_GATEWAYCLASS_NAME", "istio", "istio", "the name is fixed"),
		fixed("PILOT_IGNORE_RESOURCES", "", "", "all kinds that are served are read"),
		fixed("PILOT_INCLUDE_RESOURCES", "", "", "all kinds that are served are read"),
		fixed("PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE", "true", "true",
			"of several services with one host the caller's own namespace comes first, then Kubernetes' Services"),
		fixed("PILOT_UNIFIED_SIDECAR_SCOPE", "true", "true", "there is one way to find what a sidecar sees"),
		fixed("ENABLE_ENHANCED_DESTINATIONRULE_MERGE", "true", "true",
			"DestinationRules with different exportTo stay apart"),
	}
}

// fixedTraffic are about what proxies do with requests.
func fixedTraffic() []Variable {
	return []Variable{
		fixed("DISABLE_SHADOW_HOST_SUFFIX", "true", "true", "mirrored requests keep their host"),
		fixed("DISABLE_TRACK_REMAINING_CB_METRICS", "true", "true", "circuit breakers do not count what is left"),
		fixed("ENABLE_100_CONTINUE_HEADERS", "true", "true", "100-continue is passed on"),
		fixed("ENABLE_HCM_INTERNAL_NETWORKS", "false", "false", "addresses of other networks are not trusted"),
		fixed("ENABLE_LOCALITY_WEIGHTED_LB_CONFIG", "false", "false",
			"weights of localities count where a locality setting is in force"),
		fixed("ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL", "false", "false",
			"the status port takes no PROXY protocol"),
		fixed("ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS", "false", "false",
			"a proxy listens on the families of addresses that its Pod has"),
		fixed("MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP", "1", "0",
			"Envoy's own default holds: as many as there are"),
		fixed("PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE", "false", "false",
			"ingress listeners of a Sidecar replace the ports of services"),
		fixed("PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS", "true", "false",
			"endpoints that are not ready are sent where PILOT_SEND_UNHEALTHY_ENDPOINTS says so"),
		fixed("PILOT_DISABLE_MX_ALPN", "false", "true", "peers are told apart by certificates"),
		fixed("PILOT_DNS_CARES_UDP_MAX_QUERIES", "100", "100", "the number is fixed"),
		fixed("PILOT_DNS_JITTER_DURATION", "100ms", "100ms", "the time is fixed"),
		fixed("PILOT_DRAINING_LABEL", "istio.io/draining", "", "Kubernetes' condition `terminating` says who drains"),
		fixed("PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN", "true", "true",
			"requests may name a service with a dot at the end"),
		fixed("PILOT_ENABLE_ALPN_FILTER", "true", "false", notSniffed),
		fixed("PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES", "false", "true",
			"headless Services are balanced at their HTTP ports"),
		fixed("PILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER", "false", "true",
			"a headless Service has one listener with a match for each Pod"),
		fixed("PILOT_ENABLE_MONGO_FILTER", "true", "false", "ports of Mongo carry bytes"),
		fixed("PILOT_ENABLE_MYSQL_FILTER", "false", "false", "ports of MySQL carry bytes"),
		fixed("PILOT_ENABLE_QUIC_LISTENERS", "false", "false", "gateways take HTTP/1.1 and HTTP/2"),
		fixed("PILOT_ENABLE_REDIS_FILTER", "false", "false", "ports of Redis carry bytes"),
		fixed("PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT", "15s", "15s", "the time is fixed"),
		fixed("PILOT_PERSISTENT_SESSION_HEADER_LABEL", "istio.io/persistent-session-header",
			"istio.io/persistent-session-header", "the name is fixed"),
		fixed("PILOT_PERSISTENT_SESSION_LABEL", "istio.io/persistent-session", "istio.io/persistent-session",
			"the name is fixed"),
		fixed("PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES", "true", "true",
			"a DestinationRule says whether an external service is called over TLS"),
		fixed("PILOT_ENABLE_TELEMETRY_LABEL", "true", "true", "clusters carry Istio's metadata"),
		fixed("PILOT_ENDPOINT_TELEMETRY_LABEL", "true", "true", "endpoints carry Istio's metadata"),
		fixed("PILOT_ENABLE_METADATA_EXCHANGE", "true", "true",
			"Envoys of Istio's build exchange metadata; stock Envoy has no filter for it"),
		fixed("PILOT_MX_ADDITIONAL_LABELS", "", "", "labels of peers are those of Istio's standard metrics"),
		fixed("LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES", "false", "false",
			"external services have no canonical name"),
		fixed("PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS", "1024", "1024", "the number is fixed"),
	}
}

// fixedSecurity are about who may do what. None of these values opens anything: one that would is
// the one that has no effect.
func fixedSecurity() []Variable {
	return []Variable{
		fixed("DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES", "", "",
			"other namespaces than the root namespace are shown their own proxies alone"),
		fixed("ENABLE_CLUSTER_TRUST_BUNDLE_API", "false", "false", "roots are in ConfigMaps"),
		fixed("ENABLE_DEBUG_ENDPOINT_AUTH", "true", "true", "pages about the mesh are always guarded"),
		fixed("ENABLE_TLS_ON_SIDECAR_INGRESS", "false", "true", "TLS at `ingress` of a Sidecar is in force"),
		fixed("ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS", "false", "false",
			"a name in TLS that anybody may choose leads nowhere"),
		fixed("ENABLE_XDS_API_GENERATOR_AUTH", "true", "true", "objects are not served over xDS"),
		fixed("ISTIO_MULTIROOT_MESH", "false", "false", "several roots are trusted by caCertificates"),
		fixed("ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY", "true", "true", "a proxy is who its certificate says"),
		fixed("JWKS_RESOLVER_INSECURE_SKIP_VERIFY", "false", "false", "certificates of issuers are always checked"),
		fixed("PILOT_CRL_CONFIGMAP", "istio-ca-crl", "istio-ca-crl", "injection mounts this one"),
		fixed("PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS", "false", "true",
			"a workload may have several providers of CUSTOM policies"),
		fixed("PILOT_ENABLE_XDS_IDENTITY_CHECK", "true", "true", "a proxy gets what its proven identity may see"),
		fixed("PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS", "", "", oneCluster),
		fixed("PILOT_JWT_ENABLE_REMOTE_JWKS", "false", "false", "the control plane fetches keys, never a proxy"),
		fixed("PILOT_SKIP_VALIDATE_TRUST_DOMAIN", "false", "false",
			"callers of other trust domains are those of trustDomainAliases"),
		fixed("TRUSTED_GATEWAY_CIDR", "", "", "no header proves who a client is"),
		fixed("UNSAFE_ENABLE_ADMIN_ENDPOINTS", "false", "false", "pages about the mesh change nothing"),
		fixed("USE_CACERTS_FOR_SELF_SIGNED_CA", "false", "false",
			"a self-signed authority is in the Secret istio-ca-secret"),
		fixed("XDS_AUTH", "true", "true", "a proxy always proves who it is on the TLS port"),
	}
}

// absent are those whose subject is not here.
func absent() []Variable {
	var out []Variable
	for _, group := range []struct {
		why  string
		vars []string // name=default
	}{
		{noAmbient, []string{
			"PILOT_ENABLE_AMBIENT=false", "PILOT_ENABLE_AMBIENT_WAYPOINTS=true", "PILOT_ENABLE_SENDING_HBONE=true",
			"PILOT_ENABLE_SIDECAR_LISTENING_HBONE=true", "AMBIENT_ENABLE_STATUS=true",
			"PILOT_PREFER_SENDING_HBONE=false", "PILOT_AUTO_ALLOW_WAYPOINT_POLICY=false",
			"ENABLE_INGRESS_WAYPOINT_ROUTING=true", "AMBIENT_ENABLE_MULTI_NETWORK=false",
			"AMBIENT_ENABLE_BAGGAGE=false", "AMBIENT_ENABLE_MULTI_NETWORK_WAYPOINT=true",
			"AMBIENT_ENABLE_MULTI_NETWORK_INGRESS=false", "ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES=false",
			"AMBIENT_SCOPED_ADDRESS_PUSHES=true", "AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY=false",
			"PILOT_HBONE_INITIAL_STREAM_WINDOW_SIZE=0", "PILOT_HBONE_INITIAL_CONNECTION_WINDOW_SIZE=0",
		}},
		{oneCluster, []string{
			"MCS_API_GROUP=multicluster.x-k8s.io", "MCS_API_VERSION=v1alpha1", "ENABLE_MCS_AUTO_EXPORT=false",
			"ENABLE_MCS_SERVICE_DISCOVERY=false", "ENABLE_MCS_HOST=false", "ENABLE_MCS_CLUSTER_LOCAL=false",
			"EXTERNAL_ISTIOD=false", "PILOT_REMOTE_CLUSTER_TIMEOUT=30s",
			"PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY=true", "ENABLE_MULTICLUSTER_HEADLESS=true",
			"RESOLVE_HOSTNAME_GATEWAYS=true", "PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API=true",
			"LOCAL_CLUSTER_SECRET_WATCHER=false", "PILOT_MULTICLUSTER_KUBECONFIG_PATH=",
			"PILOT_ENABLE_REMOTE_CREDENTIALS_CONTROLLER=true",
		}},
		{noCache, []string{
			"PILOT_XDS_CACHE_SIZE=60000", "PILOT_XDS_CACHE_INDEX_CLEAR_INTERVAL=5s", "PILOT_ENABLE_XDS_CACHE=true",
			"PILOT_ENABLE_CDS_CACHE=true", "PILOT_ENABLE_RDS_CACHE=true", "PILOT_XDS_CACHE_STATS=false",
			"ENABLE_LAZY_SIDECAR_EVALUATION=true", "PILOT_CONVERT_SIDECAR_SCOPE_CONCURRENCY=1",
			"PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION=true", "ENABLE_VTPROTOBUF=true",
		}},
		{noWasm, []string{
			"ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION=true", "BLOCKED_CIDRS_IN_WASM_FETCH=",
			"ISTIO_WASM_MAX_BINARY_SIZE_BYTES=268435456",
		}},
		{noInference, []string{"ENABLE_GATEWAY_API_INFERENCE_EXTENSION=false", "PILOT_ENABLE_AGENTGATEWAY=false"}},
		{"the kinds of the Gateway API that are served are those of docs/reference/gateway-api.md",
			[]string{"PILOT_ENABLE_ALPHA_GATEWAY_API=false"}},
		{"`lateen analyze` and the condition Accepted tell what is wrong", []string{
			"PILOT_ENABLE_ANALYSIS=false", "PILOT_ANALYSIS_INTERVAL=10s",
		}},
		{"the webhooks' configurations are found by the revision", []string{
			"INJECTION_WEBHOOK_CONFIG_NAME=istio-sidecar-injector", "VALIDATION_WEBHOOK_CONFIG_NAME=istio-istio-system",
		}},
		{"the certificate has the names of the control plane's Service",
			[]string{"ISTIOD_CUSTOM_HOST="}},
		{"taints of nodes are left to others", []string{
			"PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS=false",
			"PILOT_NODE_UNTAINT_CONTROLLERS_TAINT_NAME=cni.istio.io/not-ready",
		}},
		{"there is one mesh configuration", []string{"SHARED_MESH_CONFIG="}},
		{"patches that are left out are counted by lateen_drops_total", []string{"PILOT_ENVOY_FILTER_STATS=false"}},
		{"it tunes istiod's own process", []string{
			"UNSAFE_PILOT_ENABLE_RUNTIME_ASSERTIONS=false", "MUTEX_PROFILE_FRACTION=1000",
			"PILOT_STATUS_MAX_WORKERS=100", "ISTIO_ENABLE_CONTROLLER_QUEUE_METRICS=false",
			"ISTIO_GPRC_MAXSTREAMS=100000",
		}},
		{"it is read by the agent beside a proxy", []string{"PILOT_AGENT_MERGE_ENVOY_STATS=true"}},
	} {
		for _, v := range group.vars {
			name, standard, _ := strings.Cut(v, "=")
			out = append(out, Variable{Name: name, Default: standard, Stance: Absent, Why: group.why})
		}
	}
	return out
}
