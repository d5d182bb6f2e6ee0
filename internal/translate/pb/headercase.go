package pb

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	casev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"
)

// KeptCase writes the names of headers in HTTP/1 as they came. Both sides of a proxy need it: one
// reads the names, the other writes them.
func KeptCase() *corev3.Http1ProtocolOptions_HeaderKeyFormat {
	return &corev3.Http1ProtocolOptions_HeaderKeyFormat{
		HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{
			StatefulFormatter: &corev3.TypedExtensionConfig{
				Name:        "envoy.http.stateful_header_formatters.preserve_case",
				TypedConfig: Any(&casev3.PreserveCaseFormatterConfig{}),
			},
		},
	}
}
