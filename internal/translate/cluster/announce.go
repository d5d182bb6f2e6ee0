package cluster

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// announce has connections begin with the PROXY protocol, which tells the server the address of the
// client. It stands before TLS, so it wraps the transport that the other policies have come to: in
// plaintext, in TLS, or as the endpoint takes it.
func (b *builder) announce(version model.ProxyProtocol) {
	if version == model.NoProxyProtocol {
		return
	}
	b.cluster.TransportSocket = announcing(version, b.cluster.TransportSocket)
	for _, match := range b.cluster.TransportSocketMatches {
		match.TransportSocket = announcing(version, match.TransportSocket)
	}
}

// announcing wraps a transport; nil is plaintext.
func announcing(version model.ProxyProtocol, inner *corev3.TransportSocket) *corev3.TransportSocket {
	if inner == nil {
		inner = transport("envoy.transport_sockets.raw_buffer", &rawv3.RawBuffer{})
	}
	config := &corev3.ProxyProtocolConfig{Version: corev3.ProxyProtocolConfig_V1}
	if version == model.ProxyProtocolV2 {
		config.Version = corev3.ProxyProtocolConfig_V2
	}
	return transport("envoy.transport_sockets.upstream_proxy_protocol", &proxyv3.ProxyProtocolUpstreamTransport{
		Config: config, TransportSocket: inner,
	})
}
