package convert

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// notYet is the message for a field that is set and not translated.
const notYet = "is not supported by Lateen yet and has no effect"

// usedFields returns the fields of a message of Istio's API that conversions read. Other fields are
// reported when they are set. A test proves for each field here that it makes a difference.
func usedFields(message protoreflect.FullName) (string, bool) {
	const networking, mesh = "istio.networking.v1alpha3.", "istio.mesh.v1alpha1."
	if name, ok := strings.CutPrefix(string(message), networking); ok {
		if fields, known := routingFields(name); known {
			return fields, true
		}
		if fields, known := policyFields(name); known {
			return fields, true
		}
		return listenerFields(name)
	}
	if name, ok := strings.CutPrefix(string(message), "istio.security.v1beta1."); ok {
		return securityFields(name)
	}
	if name, ok := strings.CutPrefix(string(message), mesh); ok {
		return meshFields(name)
	}
	return "match_labels", message == "istio.type.v1beta1.WorkloadSelector"
}

// routingFields has the messages under VirtualService.
func routingFields(message string) (string, bool) {
	switch message {
	case "VirtualService":
		return "hosts gateways http tls tcp export_to", true
	case "HTTPRoute":
		return "name match route redirect direct_response delegate rewrite timeout retries fault mirror mirrors " +
			"mirror_percent mirror_percentage cors_policy headers", true
	case "HTTPMatchRequest":
		return "name uri scheme method authority headers port source_labels gateways query_params ignore_uri_case " +
			"without_headers source_namespace", true
	case "StringMatch":
		return "exact prefix regex", true
	case "HTTPRouteDestination":
		return "destination weight headers", true
	case "RouteDestination":
		return "destination weight", true
	case "Destination":
		return "host subset port", true
	case "PortSelector":
		return "number", true
	case "Headers":
		return "request response", true
	case "Headers.HeaderOperations":
		return "set add remove", true
	case "HTTPRedirect":
		return "uri authority port derive_port scheme redirect_code prefix_rewrite", true
	case "HTTPDirectResponse":
		return "status body", true
	case "HTTPBody":
		return "string bytes", true
	case "Delegate":
		return "name namespace", true
	case "HTTPRewrite":
		return "uri authority uri_regex_rewrite", true
	case "RegexRewrite":
		return "match rewrite", true
	case "HTTPRetry":
		return "attempts per_try_timeout retry_on retry_remote_localities retry_ignore_previous_hosts backoff", true
	case "CorsPolicy":
		return "allow_origin allow_origins allow_methods allow_headers " +
			"expose_headers max_age allow_credentials unmatched_preflights", true
	case "HTTPFaultInjection":
		return "delay abort", true
	case "HTTPFaultInjection.Delay":
		return "percent fixed_delay exponential_delay percentage", true
	case "HTTPFaultInjection.Abort":
		return "http_status grpc_status http2_error percentage", true
	case "HTTPMirrorPolicy":
		return "destination percentage", true
	case "Percent":
		return "value", true
	case "TLSRoute", "TCPRoute":
		return "match route", true
	case "TLSMatchAttributes":
		return "sni_hosts destination_subnets port source_labels gateways source_namespace", true
	case "L4MatchAttributes":
		return "destination_subnets port source_subnet source_labels gateways source_namespace", true
	}
	return "", false
}

// policyFields has the messages under DestinationRule.
func policyFields(message string) (string, bool) {
	switch message {
	case "DestinationRule":
		return "host traffic_policy subsets export_to workload_selector", true
	case "Subset":
		return "name labels traffic_policy", true
	case "TrafficPolicy":
		return "load_balancer connection_pool outlier_detection tls port_level_settings", true
	case "TrafficPolicy.PortTrafficPolicy":
		return "port load_balancer connection_pool outlier_detection tls", true
	case "LoadBalancerSettings":
		return "simple consistent_hash warmup_duration_secs warmup locality_lb_setting", true
	case "LocalityLoadBalancerSetting":
		return "distribute failover enabled failover_priority", true
	case "LocalityLoadBalancerSetting.Distribute", "LocalityLoadBalancerSetting.Failover":
		return "from to", true
	case "WarmupConfiguration":
		return "duration", true
	case "LoadBalancerSettings.ConsistentHashLB":
		return "http_header_name http_cookie use_source_ip " +
			"http_query_parameter_name ring_hash maglev minimum_ring_size", true
	case "LoadBalancerSettings.ConsistentHashLB.RingHash":
		return "minimum_ring_size", true
	case "LoadBalancerSettings.ConsistentHashLB.MagLev":
		return "table_size", true
	case "LoadBalancerSettings.ConsistentHashLB.HTTPCookie":
		return "name path ttl", true
	case "ConnectionPoolSettings":
		return "tcp http", true
	case "ConnectionPoolSettings.TCPSettings":
		return "max_connections connect_timeout tcp_keepalive max_connection_duration idle_timeout", true
	case "ConnectionPoolSettings.TCPSettings.TcpKeepalive":
		return "probes time interval", true
	case "ConnectionPoolSettings.HTTPSettings":
		return "http1_max_pending_requests http2_max_requests max_requests_per_connection max_retries idle_timeout " +
			"h2_upgrade_policy use_client_protocol max_concurrent_streams", true
	case "OutlierDetection":
		return "split_external_local_origin_errors consecutive_local_origin_failures consecutive_gateway_errors " +
			"consecutive_5xx_errors interval base_ejection_time max_ejection_percent min_health_percent", true
	case "ClientTLSSettings":
		return "mode client_certificate private_key ca_certificates credential_name subject_alt_names sni " +
			"insecure_skip_verify ca_crl", true
	}
	return "", false
}

// listenerFields has the messages under Gateway, Sidecar and ServiceEntry.
func listenerFields(message string) (string, bool) {
	switch message {
	case "Gateway":
		return "servers selector", true
	case "Server":
		return "port bind hosts tls name", true
	case "Port":
		return "number protocol name", true
	case "ServerTLSSettings":
		return "https_redirect mode server_certificate private_key ca_certificates credential_name credential_names " +
			"ca_cert_credential_name tls_certificates ca_crl subject_alt_names verify_certificate_spki " +
			"verify_certificate_hash " +
			"min_protocol_version max_protocol_version cipher_suites insecure_skip_verify", true
	case "ServerTLSSettings.TLSCertificate":
		return "server_certificate private_key ca_certificates", true
	case "Sidecar":
		return "workload_selector ingress egress outbound_traffic_policy", true
	case "WorkloadSelector":
		return "labels", true
	case "IstioIngressListener":
		return "port bind capture_mode default_endpoint tls", true
	case "IstioEgressListener":
		return "port bind capture_mode hosts", true
	case "SidecarPort":
		return "number protocol name", true
	case "OutboundTrafficPolicy":
		return "mode egress_proxy", true
	case "ServiceEntry":
		return "hosts addresses ports location resolution endpoints workload_selector export_to subject_alt_names", true
	case "ServicePort":
		return "number protocol name target_port", true
	case "WorkloadEntry":
		return "address ports labels locality weight service_account", true
	}
	return "", false
}

// securityFields has the messages under the policies of security.
func securityFields(message string) (string, bool) {
	switch message {
	case "AuthorizationPolicy":
		return "selector targetRef targetRefs rules action provider", true
	case "AuthorizationPolicy.ExtensionProvider":
		return "name", true
	case "Rule":
		return "from to when", true
	case "Rule.From":
		return "source", true
	case "Rule.To":
		return "operation", true
	case "Source":
		return "principals not_principals request_principals not_request_principals namespaces not_namespaces " +
			"service_accounts not_service_accounts ip_blocks not_ip_blocks remote_ip_blocks not_remote_ip_blocks " +
			"trust_domains not_trust_domains", true
	case "Operation":
		return "hosts not_hosts ports not_ports methods not_methods paths not_paths", true
	case "Condition":
		return "key values not_values", true
	case "PeerAuthentication":
		return "selector mtls port_level_mtls", true
	case "PeerAuthentication.MutualTLS":
		return "mode", true
	case "RequestAuthentication":
		return "selector targetRef targetRefs jwt_rules", true
	case "JWTRule":
		return "issuer audiences jwks_uri jwks from_headers from_params from_cookies output_payload_to_header " +
			"forward_original_token output_claim_to_headers timeout space_delimited_claims", true
	case "JWTHeader":
		return "name prefix", true
	case "ClaimToHeader":
		return "header claim", true
	}
	return "", false
}

func meshFields(message string) (string, bool) {
	switch message {
	case "MeshConfig":
		return "outbound_traffic_policy connect_timeout default_http_retry_policy proxy_http_port " +
			"default_service_export_to " +
			"default_virtual_service_export_to default_destination_rule_export_to root_namespace " +
			"access_log_file access_log_format access_log_encoding default_providers default_config " +
			"ingress_class ingress_service ingress_controller_mode ingress_selector " +
			"locality_lb_setting enable_auto_mtls " +
			"trust_domain trust_domain_aliases mesh_mTLS tls_defaults " +
			"extension_providers path_normalization ca_certificates", true
	case "MeshConfig.CertificateData":
		return "pem spiffe_bundle_url cert_signers trust_domains", true
	case "MeshConfig.ProxyPathNormalization":
		return "normalization", true
	case "MeshConfig.ExtensionProvider":
		return "name envoy_ext_authz_http envoy_ext_authz_grpc " +
			"envoy_file_access_log envoy_http_als envoy_tcp_als envoy_otel_als prometheus", true
	case "MeshConfig.ExtensionProvider.PrometheusMetricsProvider":
		return "", true
	case "MeshConfig.DefaultProviders":
		return "access_logging metrics", true
	case "MeshConfig.ExtensionProvider.EnvoyFileAccessLogProvider":
		return "path log_format omit_empty_values", true
	case "MeshConfig.ExtensionProvider.EnvoyHttpGrpcV3LogProvider":
		return "service port log_name filter_state_objects_to_log additional_request_headers_to_log " +
			"additional_response_headers_to_log additional_response_trailers_to_log", true
	case "MeshConfig.ExtensionProvider.EnvoyTcpGrpcV3LogProvider":
		return "service port log_name filter_state_objects_to_log", true
	case "MeshConfig.ExtensionProvider.EnvoyOpenTelemetryLogProvider":
		return "service port log_name log_format", true
	case "MeshConfig.ExtensionProvider.EnvoyFileAccessLogProvider.LogFormat",
		"MeshConfig.ExtensionProvider.EnvoyOpenTelemetryLogProvider.LogFormat":
		return "text labels", true
	case "MeshConfig.ExtensionProvider.EnvoyExternalAuthorizationHttpProvider":
		return "service port timeout path_prefix fail_open clear_route_cache status_on_error " +
			"include_headers_in_check include_request_headers_in_check include_additional_headers_in_check " +
			"include_request_body_in_check headers_to_upstream_on_allow headers_to_downstream_on_deny " +
			"headers_to_downstream_on_allow", true
	case "MeshConfig.ExtensionProvider.EnvoyExternalAuthorizationGrpcProvider":
		return "service port timeout fail_open clear_route_cache status_on_error include_request_body_in_check", true
	case "MeshConfig.ExtensionProvider.EnvoyExternalAuthorizationRequestBody":
		return "max_request_bytes allow_partial_message pack_as_bytes", true
	case "MeshConfig.TLSConfig":
		return "min_protocol_version cipher_suites ecdh_curves", true
	case "MeshConfig.OutboundTrafficPolicy":
		return "mode tls", true
	case "ProxyConfig":
		return "proxy_metadata", true
	}
	return "", false
}

// reportUnused reports the fields below a message that are set and not read, unless what encloses
// them was refused.
func (r *reader) reportUnused(p path, m protoreflect.Message) {
	used, known := usedFields(m.Descriptor().FullName())
	if !known {
		return // google.protobuf.Duration and the like
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			continue
		}
		at := p.dot(field.JSONName())
		if !hasWord(used, string(field.Name())) {
			if !r.hasErrorAbove(at) {
				r.warn(at, scalar(field, m.Get(field)), notYet, "")
			}
			continue
		}
		r.reportUnusedBelow(at, field, m.Get(field))
	}
}

func (r *reader) reportUnusedBelow(p path, field protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case field.IsMap():
		if field.MapValue().Message() == nil {
			return
		}
		entries := map[string]protoreflect.Message{}
		v.Map().Range(func(k protoreflect.MapKey, e protoreflect.Value) bool {
			entries[k.String()] = e.Message()
			return true
		})
		for _, k := range sortedKeys(entries) {
			r.reportUnused(p.key(k), entries[k])
		}
	case field.Message() == nil:
	case field.IsList():
		for i := range v.List().Len() {
			r.reportUnused(p.at(i), v.List().Get(i).Message())
		}
	default:
		r.reportUnused(p, v.Message())
	}
}

// scalar returns the value of a field for a message, or nil if it is compound.
func scalar(field protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case field.IsList() || field.IsMap() || field.Message() != nil:
		return nil
	case field.Enum() != nil:
		if known := field.Enum().Values().ByNumber(v.Enum()); known != nil {
			return known.Name()
		}
	}
	return v.Interface()
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}
