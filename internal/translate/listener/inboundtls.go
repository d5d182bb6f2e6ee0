package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// inTLS is the transport_protocol (FilterChainMatch) of a connection whose first bytes are those of
// TLS.
const inTLS = "tls"

// secureChains returns the chains for connections in TLS. TLS of the mesh is known by its protocols
// and ends here. It carries HTTP if the port is HTTP, or if the client asks for HTTP on a port that
// does not say. Other TLS is the workload's own; an HTTP port has no chain for it. Envoy picks the
// chains for TLS first and does not come back to others.
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

// ofMesh limits a chain to connections in mutual TLS of the mesh that ask for one of the protocols,
// and terminates their TLS.
func ofMesh(chain *listenerv3.FilterChain, protocols []string) *listenerv3.FilterChain {
	server := ServerChain{TLS: &model.ServerTLS{Mode: model.ServerIstioMutual}}
	chain.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: inTLS, ApplicationProtocols: protocols}
	chain.TransportSocket = server.terminate()
	return chain
}

// tlsInspector returns the filter that tells connections in TLS from others, and reads what they
// ask for.
func tlsInspector() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{
		InitialReadBufferSize: wrapperspb.UInt32(inspectorBuffer),
	})
}
