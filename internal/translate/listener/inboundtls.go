package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// inTLS is how a connection is known whose first bytes are those of TLS (FilterChainMatch.transport_protocol).
const inTLS = "tls"

// secureChains are for connections in TLS. What is of the mesh is known by its protocols, ends here, and is HTTP if the port is, or
// if a port that does not say is asked so; other TLS is the workload's own, which HTTP has no chain for. Envoy picks the chains for
// TLS first and does not come back to others.
func (in *InboundPort) secureChains(common Common) []*listenerv3.FilterChain {
	secure := *in
	secure.Refuses = in.RefusesTLS
	own := in.tcp(common)
	own.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: inTLS}
	switch {
	case in.Protocol.IsHTTP():
		return []*listenerv3.FilterChain{ofMesh(secure.http(common), meshProtocols())}
	case in.Protocol == model.Auto:
		return []*listenerv3.FilterChain{
			ofMesh(secure.http(common), []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"}),
			ofMesh(secure.tcp(common), []string{"istio", "istio-peer-exchange"}), own,
		}
	default:
		return []*listenerv3.FilterChain{ofMesh(secure.tcp(common), meshProtocols()), own}
	}
}

// ofMesh makes a chain one for connections in mutual TLS of the mesh which ask for one of the protocols.
func ofMesh(chain *listenerv3.FilterChain, protocols []string) *listenerv3.FilterChain {
	door := Door{TLS: &model.ServerTLS{Mode: model.ServerIstioMutual}}
	chain.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: inTLS, ApplicationProtocols: protocols}
	chain.TransportSocket = door.terminate()
	return chain
}

// tlsInspector tells connections in TLS from others, and what they ask for.
func tlsInspector() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{InitialReadBufferSize: wrapperspb.UInt32(inspectorBuffer)})
}
