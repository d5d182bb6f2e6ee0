package convert

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

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
		if fields, known := patchFields(name); known {
			return fields, true
		}
		return listenerFields(name)
	}
	if name, ok := strings.CutPrefix(string(message), "istio.security.v1beta1."); ok {
		return securityFields(name)
	}
	if name, ok := strings.CutPrefix(string(message), "istio.telemetry.v1alpha1."); ok {
		return telemetryFields(name)
	}
	if name, ok := strings.CutPrefix(string(message), "istio.extensions.v1alpha1."); ok {
		return extensionFields(name)
	}
	if name, ok := strings.CutPrefix(string(message), "istio.networking.v1beta1."); ok {
		return startFields(name)
	}
	if name, ok := strings.CutPrefix(string(message), mesh); ok {
		return meshFields(name)
	}
	if message == "istio.type.v1beta1.PortSelector" {
		return "number", true
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
			"without_headers source_namespace stat_prefix", true
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

// patchFields has the messages under EnvoyFilter.
func patchFields(message string) (string, bool) {
	switch message {
	case "EnvoyFilter":
		return "workload_selector targetRefs config_patches priority", true
	case "EnvoyFilter.EnvoyConfigObjectPatch":
		return "apply_to match patch", true
	case "EnvoyFilter.EnvoyConfigObjectMatch":
		return "context proxy listener route_configuration cluster", true
	case "EnvoyFilter.ProxyMatch":
		return "proxy_version metadata", true
	case "EnvoyFilter.ClusterMatch":
		return "port_number service subset name", true
	case "EnvoyFilter.RouteConfigurationMatch":
		return "port_number port_name gateway vhost name", true
	case "EnvoyFilter.RouteConfigurationMatch.VirtualHostMatch":
		return "name domain_name route", true
	case "EnvoyFilter.RouteConfigurationMatch.RouteMatch":
		return "name action", true
	case "EnvoyFilter.ListenerMatch":
		return "port_number filter_chain listener_filter name", true
	case "EnvoyFilter.ListenerMatch.FilterChainMatch":
		return "name sni transport_protocol application_protocols filter destination_port", true
	case "EnvoyFilter.ListenerMatch.FilterMatch":
		return "name sub_filter", true
	case "EnvoyFilter.ListenerMatch.SubFilterMatch":
		return "name", true
	case "EnvoyFilter.Patch":
		return "operation value filter_class", true
	}
	return "", false
}

// extensionFields has the messages under WasmPlugin and TrafficExtension.
func extensionFields(message string) (string, bool) {
	const wasm = "url sha256 image_pull_policy image_pull_secret plugin_config plugin_name fail_strategy vm_config type"
	switch message {
	case "WasmPlugin":
		return "selector targetRef targetRefs phase priority match " + wasm, true
	case "TrafficExtension":
		return "selector targetRefs phase priority match wasm lua", true
	case "WasmConfig":
		return wasm, true
	case "LuaConfig":
		return "inline_code", true
	case "TrafficSelector", "WasmPlugin.TrafficSelector":
		return "mode ports", true
	case "VmConfig":
		return "env", true
	case "EnvVar":
		return "name value_from value", true
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
		return "load_balancer connection_pool outlier_detection tls port_level_settings retry_budget tunnel " +
			"proxy_protocol", true
	case "TrafficPolicy.TunnelSettings":
		return "protocol target_host target_port", true
	case "TrafficPolicy.ProxyProtocol":
		return "version", true
	case "TrafficPolicy.RetryBudget":
		return "percent min_retry_concurrency budget_interval", true
	case "TrafficPolicy.PortTrafficPolicy":
		return "port load_balancer connection_pool outlier_detection tls", true
	case "LoadBalancerSettings":
		return "simple consistent_hash warmup_duration_secs warmup locality_lb_setting " +
			"zone_aware_lb_setting", true
	case "ZoneAwareLoadBalancerSetting":
		return "enabled failover failover_priority min_cluster_size", true
	case "LocalityLoadBalancerSetting":
		return "distribute failover enabled failover_priority", true
	case "LocalityLoadBalancerSetting.Distribute", "LocalityLoadBalancerSetting.Failover",
		"ZoneAwareLoadBalancerSetting.Failover":
		return "from to", true
	case "WarmupConfiguration":
		return "duration minimum_percent aggression", true
	case "LoadBalancerSettings.ConsistentHashLB":
		return "http_header_name http_cookie use_source_ip " +
			"http_query_parameter_name ring_hash maglev minimum_ring_size", true
	case "LoadBalancerSettings.ConsistentHashLB.RingHash":
		return "minimum_ring_size", true
	case "LoadBalancerSettings.ConsistentHashLB.MagLev":
		return "table_size", true
	case "LoadBalancerSettings.ConsistentHashLB.HTTPCookie":
		return "name path ttl attributes", true
	case "LoadBalancerSettings.ConsistentHashLB.HTTPCookie.Attribute":
		return "name value", true
	case "ConnectionPoolSettings":
		return "tcp http", true
	case "ConnectionPoolSettings.TCPSettings":
		return "max_connections connect_timeout tcp_keepalive max_connection_duration idle_timeout", true
	case "ConnectionPoolSettings.TCPSettings.TcpKeepalive":
		return "probes time interval", true
	case "ConnectionPoolSettings.HTTPSettings":
		return "http1_max_pending_requests http2_max_requests max_requests_per_connection max_retries idle_timeout " +
			"h2_upgrade_policy use_client_protocol max_concurrent_streams http2_keep_alive", true
	case "ConnectionPoolSettings.HTTPSettings.ConnectionKeepalive":
		return "interval timeout", true
	case "OutlierDetection":
		return "split_external_local_origin_errors consecutive_local_origin_failures consecutive_gateway_errors " +
			"consecutive_5xx_errors interval base_ejection_time max_ejection_percent min_health_percent " +
			"outlier_detection_http_error_codes", true
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
		return "workload_selector ingress egress outbound_traffic_policy inbound_connection_pool", true
	case "WorkloadSelector":
		return "labels", true
	case "IstioIngressListener":
		return "port bind capture_mode default_endpoint tls connection_pool", true
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
	case "WorkloadGroup":
		return "metadata template probe", true
	case "WorkloadGroup.ObjectMeta":
		return "labels annotations", true
	case "ReadinessProbe":
		return "initial_delay_seconds timeout_seconds period_seconds success_threshold failure_threshold http_get " +
			"tcp_socket exec grpc", true
	case "HTTPHealthCheckConfig":
		return "path port host scheme http_headers", true
	case "HTTPHeader":
		return "name value", true
	case "TCPHealthCheckConfig":
		return "host port", true
	case "ExecHealthCheckConfig":
		return "command", true
	case "GrpcHealthCheckConfig":
		return "port service", true
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

// startFields has the messages under ProxyConfig, the kind.
func startFields(message string) (string, bool) {
	switch message {
	case "ProxyConfig":
		return "selector concurrency environment_variables image", true
	case "ProxyImage":
		return "image_type", true
	}
	return "", false
}

// telemetryFields has the messages under Telemetry.
func telemetryFields(message string) (string, bool) {
	switch message {
	case "Telemetry":
		return "selector targetRef targetRefs tracing metrics access_logging", true
	case "Tracing":
		return "match providers random_sampling_percentage disable_span_reporting custom_tags " +
			"use_request_id_for_trace_sampling enable_istio_tags disable_context_propagation", true
	case "Tracing.TracingSelector", "AccessLogging.LogSelector":
		return "mode", true
	case "Tracing.CustomTag":
		return "literal environment header formatter", true
	case "Tracing.Literal", "Tracing.Formatter":
		return "value", true
	case "Tracing.Environment", "Tracing.RequestHeader":
		return "name default_value", true
	case "ProviderRef":
		return "name", true
	case "Metrics":
		return "providers overrides reporting_interval", true
	case "MetricsOverrides":
		return "match disabled tag_overrides", true
	case "MetricsOverrides.TagOverride":
		return "operation value", true
	case "MetricSelector":
		return "metric custom_metric mode", true
	case "AccessLogging":
		return "match providers disabled filter", true
	case "AccessLogging.Filter":
		return "expression", true
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
			passedOn := r.converter.injects && isOfStart(field) || r.converter.workers && isWorkers(field)
			if !passedOn && !r.hasErrorAbove(at) {
				r.warn(at, scalar(field, m.Get(field)), whyAbsent(field), "")
			}
			continue
		}
		r.reportUnusedBelow(at, field, m.Get(field))
	}
}

// isWorkers reports whether a field is defaultConfig.concurrency.
func isWorkers(field protoreflect.FieldDescriptor) bool {
	return field.FullName() == "istio.mesh.v1alpha1.ProxyConfig.concurrency"
}

// isOfStart reports whether a field of defaultConfig is read when a proxy starts, by the injection
// or its agent.
func isOfStart(field protoreflect.FieldDescriptor) bool {
	const fields = "config_path binary_path service_cluster tracing_service_name drain_duration " +
		"termination_drain_duration discovery_address proxy_admin_port status_port concurrency " +
		"control_plane_auth_policy runtime_values extra_stat_tags file_flush_interval file_flush_min_size_kb " +
		"stats_compression proxy_stats_matcher envoy_metrics_service image interception_mode " +
		"hold_application_until_proxy_starts stat_name_length readiness_probe"
	const limit = "istio.mesh.v1alpha1.ProxyConfig.ConnectionSettings.global_downstream_connection_limit"
	return field.FullName() == limit || field.ContainingMessage().FullName() == "istio.mesh.v1alpha1.ProxyConfig" &&
		hasWord(fields, string(field.Name()))
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
