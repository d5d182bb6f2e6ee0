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
// does not say. Other TLS is the workload's own, unless all counts as that of the mesh; an HTTP
// port has no chain for it. Envoy picks the chains for TLS first and does not come back to others.
func (in *InboundPort) secureChains(common builder) []*listenerv3.FilterChain {
	secure, mesh := *in, common
	secure.Refuses, mesh.ofMesh = false, true
	switch {
	case in.Protocol.IsHTTP():
		return []*listenerv3.FilterChain{ofMesh(common, secure.http(mesh), protocolsOf(in.Refuses, meshProtocols()))}
	case in.Protocol == model.Auto:
		http := ofMesh(common, secure.http(mesh), requestProtocols())
		bytes := ofMesh(common, secure.tcp(mesh), protocolsOf(in.Refuses, byteProtocols()))
		return withOwnTLS(in.Refuses, in.tcp(common), http, bytes)
	default:
		bytes := ofMesh(common, secure.tcp(mesh), protocolsOf(in.Refuses, meshProtocols()))
		return withOwnTLS(in.Refuses, in.tcp(common), bytes)
	}
}

// protocolsOf returns the protocols (ALPN) by which TLS of the mesh is known; none if all TLS
// counts as such.
func protocolsOf(allTLS bool, protocols []string) []string {
	if allTLS {
		return nil
	}
	return protocols
}

// withOwnTLS adds a chain for TLS that the workload ends itself, unless all TLS is that of the
// mesh.
func withOwnTLS(
	allTLS bool, own *listenerv3.FilterChain, ofMesh ...*listenerv3.FilterChain,
) []*listenerv3.FilterChain {
	if allTLS {
		return ofMesh
	}
	own.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: inTLS}
	return append(ofMesh, own)
}

// chains are those of ports that nobody names: for connections in TLS of the mesh, if they take it,
// and for all others. Those in TLS of the mesh say whether they carry requests. Requests are told
// from bytes where that makes a difference (tellsRequests).
func (u Undeclared) chains(common builder) []*listenerv3.FilterChain {
	anyPort := InboundPort{Name: VirtualInboundName, Protocol: model.Auto, Cluster: inboundPassthrough}
	handOn := func(refuses bool, common builder) *listenerv3.FilterChain {
		if refuses {
			return opaque(VirtualInboundName, blackHole, common)
		}
		return opaque(VirtualInboundName, inboundPassthrough, common)
	}
	var chains []*listenerv3.FilterChain
	if u.TakesTLS {
		allTLS := u.Refuses && !u.RefusesTLS
		mesh := common
		mesh.ofMesh = true
		ended := []*listenerv3.FilterChain{
			ofMesh(common, handOn(u.RefusesTLS, mesh), protocolsOf(allTLS, meshProtocols())),
		}
		if common.tellsRequests() && !u.RefusesTLS {
			ended = []*listenerv3.FilterChain{
				ofMesh(common, anyPort.http(mesh), requestProtocols()),
				ofMesh(common, handOn(false, mesh), protocolsOf(allTLS, byteProtocols())),
			}
		}
		chains = withOwnTLS(allTLS, handOn(u.Refuses, common), ended...)
	}
	if u.looksForRequests(common) {
		http := anyPort.http(common)
		http.FilterChainMatch = &listenerv3.FilterChainMatch{ApplicationProtocols: inspected(common)}
		chains = append(chains, http)
	}
	return append(chains, handOn(u.Refuses, common))
}

// looksForRequests reports whether connections in plaintext are looked at for HTTP. They are where
// that keeps no server from speaking first: the look for TLS waits for the client's first bytes
// already, or nothing waits for ever.
func (u Undeclared) looksForRequests(common builder) bool {
	return !u.Refuses && common.tellsRequests() && (u.TakesTLS || common.DetectionTimeout > 0)
}

// tellsRequests reports whether policies, logs, metrics or traces are about requests, so that these
// are told from other bytes on ports that nobody names.
func (c builder) tellsRequests() bool {
	return c.authFilters.requests() || c.Metrics.Standard || len(c.AccessLogs) > 0 || c.Tracing.Tracer != nil
}

// ofMesh limits a chain to connections in mutual TLS of the mesh that ask for one of the protocols,
// if there are any, and terminates their TLS.
func ofMesh(common builder, chain *listenerv3.FilterChain, protocols []string) *listenerv3.FilterChain {
	server := ServerChain{TLS: &model.ServerTLS{Mode: model.ServerIstioMutual}}
	chain.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: inTLS, ApplicationProtocols: protocols}
	common.exchange = exchanges(chain)
	chain.TransportSocket = server.terminate(common)
	return chain
}

// tlsInspector returns the filter that tells connections in TLS from others, and reads what they
// ask for.
func tlsInspector() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{
		InitialReadBufferSize: wrapperspb.UInt32(inspectorBuffer),
	})
}
