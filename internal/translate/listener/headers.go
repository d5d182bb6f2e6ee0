package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// serverName is what Istio's inbound and gateway proxies call themselves in responses; outbound
// ones keep Envoy's "envoy".
const serverName = "istio-envoy"

// headers sets which headers a connection manager sets of itself, in requests and responses.
func (c builder) headers(m *hcmv3.HttpConnectionManager) {
	h := c.Headers
	if h.NoRequestID {
		m.GenerateRequestId = wrapperspb.Bool(false)
	}
	m.AppendXForwardedPort = h.ForwardedPort
	if h.KeepsCase {
		if m.HttpProtocolOptions == nil {
			m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{}
		}
		m.HttpProtocolOptions.HeaderKeyFormat = pb.KeptCase()
	}
	c.namesServer(m, "")
}

// namesServer sets the header server of responses: to standard, unless something else is said.
func (c builder) namesServer(m *hcmv3.HttpConnectionManager, standard string) {
	switch h := c.Headers; {
	case h.KeepsServer:
		m.ServerHeaderTransformation = hcmv3.HttpConnectionManager_PASS_THROUGH
	case h.Server != "":
		m.ServerName = h.Server
	default:
		m.ServerName = standard
	}
}

// clientCert says what becomes of x-forwarded-client-cert in calls that a sidecar takes.
func (c builder) clientCert(m *hcmv3.HttpConnectionManager) {
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_APPEND_FORWARD
	if c.Headers.SetsInbound {
		m.ForwardClientCertDetails = clientCertHeader(c.Headers.Inbound)
	}
	switch m.ForwardClientCertDetails {
	case hcmv3.HttpConnectionManager_APPEND_FORWARD, hcmv3.HttpConnectionManager_SANITIZE_SET:
		d := c.Headers.Details
		m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
			Dns: !d.NoDNS, Uri: !d.NoURI, Cert: d.Cert, Chain: d.Chain,
		}
		if !d.NoSubject {
			m.SetCurrentClientCertDetails.Subject = wrapperspb.Bool(true)
		}
	}
}
