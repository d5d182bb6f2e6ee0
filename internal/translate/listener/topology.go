package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// behind has a gateway believe as much of what clients say as the proxies in front of it allow.
func behind(t model.GatewayTopology, m *hcmv3.HttpConnectionManager) {
	m.XffNumTrustedHops = t.TrustedProxies
	m.ForwardClientCertDetails = clientCertHeader(t.ClientCert)
	if t.ClientCert == model.CertSanitizeSet || t.ClientCert == model.CertAppendForward {
		m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
			Subject: wrapperspb.Bool(true), Cert: true, Dns: true, Uri: true,
		}
	}
}

func clientCertHeader(h model.ClientCertHeader) hcmv3.HttpConnectionManager_ForwardClientCertDetails {
	switch h {
	case model.CertSanitize:
		return hcmv3.HttpConnectionManager_SANITIZE
	case model.CertForwardOnly:
		return hcmv3.HttpConnectionManager_FORWARD_ONLY
	case model.CertAppendForward:
		return hcmv3.HttpConnectionManager_APPEND_FORWARD
	case model.CertAlwaysForwardOnly:
		return hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY
	default:
		return hcmv3.HttpConnectionManager_SANITIZE_SET
	}
}

// proxyProtocol refuses connections that do not begin with the PROXY protocol: any client could
// begin with one that it makes up where both are taken.
func proxyProtocol() *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{
		Name: "envoy.filters.listener.proxy_protocol",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{
			TypedConfig: pb.Any(&proxyprotocolv3.ProxyProtocol{}),
		},
	}
}
