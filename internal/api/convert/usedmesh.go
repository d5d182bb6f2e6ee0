package convert

// meshFields has the messages under MeshConfig.
func meshFields(message string) (string, bool) {
	switch message {
	case "MeshConfig":
		return "outbound_traffic_policy connect_timeout dns_refresh_rate default_http_retry_policy proxy_http_port " +
			"default_service_export_to " +
			"default_virtual_service_export_to default_destination_rule_export_to root_namespace " +
			"access_log_file access_log_format access_log_encoding default_providers default_config " +
			"ingress_class ingress_service ingress_controller_mode ingress_selector " +
			"locality_lb_setting zone_aware_lb_setting enable_auto_mtls " +
			"trust_domain trust_domain_aliases mesh_mTLS tls_defaults " +
			"extension_providers path_normalization ca_certificates enable_tracing " +
			"enable_envoy_access_log_service h2_upgrade_policy default_traffic_policy tcp_keepalive " +
			"inbound_cluster_stat_name outbound_cluster_stat_name protocol_detection_timeout " +
			"disable_envoy_listener_log inbound_traffic_policy proxy_listen_port proxy_inbound_listen_port", true
	case "MeshConfig.InboundTrafficPolicy":
		return "mode", true
	case "MeshConfig.DefaultTrafficPolicy":
		return "connection_pool outlier_detection", true
	case "MeshConfig.CertificateData":
		return "pem spiffe_bundle_url cert_signers trust_domains", true
	case "MeshConfig.ProxyPathNormalization":
		return "normalization", true
	case "MeshConfig.ExtensionProvider":
		return "name envoy_ext_authz_http envoy_ext_authz_grpc " +
			"envoy_file_access_log envoy_http_als envoy_tcp_als envoy_otel_als " +
			"zipkin datadog skywalking opentelemetry prometheus", true
	case "MeshConfig.DefaultProviders":
		return "access_logging tracing metrics", true
	case "MeshConfig.ExtensionProvider.ZipkinTracingProvider":
		return "service port max_tag_length enable_64bit_trace_id path trace_context_option timeout headers", true
	case "MeshConfig.ExtensionProvider.DatadogTracingProvider":
		return "service port max_tag_length", true
	case "MeshConfig.ExtensionProvider.SkyWalkingTracingProvider":
		return "service port", true
	case "MeshConfig.ExtensionProvider.OpenTelemetryTracingProvider":
		return "service port max_tag_length http grpc resource_detectors", true
	case "MeshConfig.ExtensionProvider.HttpService":
		return "path timeout headers", true
	case "MeshConfig.ExtensionProvider.GrpcService":
		return "timeout initial_metadata", true
	case "MeshConfig.ExtensionProvider.HttpHeader":
		return "name value env_name", true
	case "MeshConfig.ExtensionProvider.ResourceDetectors":
		return "environment", true
	case "MeshConfig.ExtensionProvider.ResourceDetectors.EnvironmentResourceDetector",
		"MeshConfig.ExtensionProvider.PrometheusMetricsProvider":
		return "", true
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
		return "proxy_metadata tracing gateway_topology proxy_headers envoy_access_log_service " +
			"connection_settings", true
	case "ProxyConfig.ConnectionSettings":
		return "profile listener_per_connection_buffer_limit_bytes " +
			"http_idle_timeout http_max_connection_duration http_drain_timeout http_request_timeout " +
			"http_request_headers_timeout http_stream_idle_timeout http_max_stream_duration " +
			"http_max_concurrent_streams http2_initial_stream_window_size http2_initial_connection_window_size " +
			"http_headers_with_underscores_action http_merge_slashes http_path_with_escaped_slashes_action", true
	case "RemoteService":
		return "address", true
	case "ProxyConfig.ProxyHeaders":
		return "forwarded_client_cert set_current_client_cert_details request_id server attempt_count " +
			"envoy_debug_headers metadata_exchange_headers preserve_http1_header_case x_forwarded_host " +
			"x_forwarded_port", true
	case "ProxyConfig.ProxyHeaders.SetCurrentClientCertDetails":
		return "subject cert chain dns uri", true
	case "ProxyConfig.ProxyHeaders.Server":
		return "disabled value", true
	case "ProxyConfig.ProxyHeaders.RequestId", "ProxyConfig.ProxyHeaders.AttemptCount",
		"ProxyConfig.ProxyHeaders.EnvoyDebugHeaders":
		return "disabled", true
	case "ProxyConfig.ProxyHeaders.XForwardedHost", "ProxyConfig.ProxyHeaders.XForwardedPort":
		return "enabled", true
	case "ProxyConfig.ProxyHeaders.MetadataExchangeHeaders":
		return "mode", true
	case "Topology":
		return "num_trusted_proxies forward_client_cert_details proxy_protocol", true
	case "Topology.ProxyProtocolConfiguration":
		return "", true
	case "Tracing":
		return "zipkin datadog custom_tags max_path_tag_length sampling enable_istio_tags", true
	case "Tracing.Zipkin", "Tracing.Datadog":
		return "address", true
	case "Tracing.CustomTag":
		return "literal environment header", true
	case "Tracing.Literal":
		return "value", true
	case "Tracing.Environment", "Tracing.RequestHeader":
		return "name default_value", true
	}
	return "", false
}
