package pb

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// OverADS takes a resource from the stream. The fetch has a timeout, Envoy's default of 15 s.
func OverADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

// OverADSWithoutTimeout takes a resource from the stream, and waits for it however long it takes.
func OverADSWithoutTimeout() *corev3.ConfigSource {
	source := OverADS()
	source.InitialFetchTimeout = Duration(0)
	return source
}
