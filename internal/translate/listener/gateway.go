package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Gateway returns a gateway's listener. Its clients are outside of the mesh. So x-forwarded-for and
// the headers that only trusted callers may set are made from the connection, not taken from the
// request.
//
// Connections in plaintext come to one chain. With TLS the server name tells chains apart. What no
// chain takes is closed.
func Gateway(in GatewayInput) *listenerv3.Listener {
	common := in.Common.with(in.AuthFilters)
	common.ofGateway, common.grpcWeb = true, byRoute(in.GRPCWeb)
	common.TrustDomains = nil // clients with a certificate may be of another mesh that is trusted
	address, more := in.addresses(common)
	l := &listenerv3.Listener{
		Name:                in.Name,
		Address:             address,
		AdditionalAddresses: more,
		TrafficDirection:    corev3.TrafficDirection_OUTBOUND,
		AccessLog:           common.unmatchedLog(),
	}
	if s := common.Connections; s != nil {
		l.PerConnectionBufferLimitBytes = pb.OptionalUint32(s.BufferLimit)
	}
	if in.RouteTable != "" {
		chain := in.http(in.RouteTable, true, common)
		chain.TransportSocketConnectTimeout = pb.Duration(gatewayHandshake)
		l.FilterChains = []*listenerv3.FilterChain{chain}
	}
	taken := claims{}
	for server := range in.Chains.All() {
		for _, match := range taken.matches(server.Chain) {
			chain := in.serverChain(server, common)
			chain.Name, chain.FilterChainMatch = server.Name, match
			if server.OfMesh {
				match.ApplicationProtocols = meshProtocols()
			}
			if len(match.GetServerNames()) > 0 || len(match.GetPrefixRanges()) > 0 {
				l.FilterChains = append(l.FilterChains, chain)
				continue
			}
			chain.FilterChainMatch = nil
			l.DefaultFilterChain = chain
		}
	}
	if common.Topology.ProxyProtocol {
		l.ListenerFilters = append(l.ListenerFilters, proxyProtocol())
	}
	if taken.bySNI {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector())
	}
	if len(l.FilterChains) == 0 && l.DefaultFilterChain != nil {
		l.FilterChains, l.DefaultFilterChain = []*listenerv3.FilterChain{l.DefaultFilterChain}, nil
	}
	return l
}

// addresses returns where the listener is bound.
func (in *GatewayInput) addresses(common builder) (*corev3.Address, []*listenerv3.AdditionalAddress) {
	if in.Bind == "" {
		return wildcardAddresses(common.Stack.GatewayWildcards(), in.Port)
	}
	return addressOf(in.Bind, in.Port), nil
}

// meshProtocols returns the ALPN protocols by which proxies of Istio say that a connection is in
// mutual TLS of the mesh.
func meshProtocols() []string {
	return append(byteProtocols(), requestProtocols()...)
}

// byteProtocols and requestProtocols are those of connections that carry bytes, and HTTP.
func byteProtocols() []string    { return []string{"istio", "istio-peer-exchange"} }
func requestProtocols() []string { return []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"} }

// serverChain returns the chain of one server, or of one of its routes.
func (in *GatewayInput) serverChain(server ServerChain, common builder) *listenerv3.FilterChain {
	chain := &listenerv3.FilterChain{}
	if server.RouteTable != "" && !server.Closed {
		ofMesh := server.TLS != nil && server.TLS.Mode == model.ServerIstioMutual
		chain = in.http(server.RouteTable, ofMesh, common)
	} else {
		server.Closed = server.Closed || common.authFilters.closes()
		chain.Filters = server.filters(in.Name, common)
	}
	if server.TLS != nil && !server.Closed {
		chain.TransportSocket = server.terminate(common)
		chain.TransportSocketConnectTimeout = pb.Duration(gatewayHandshake)
	}
	return chain
}

// http is a chain of requests. Those whose callers may be of the mesh take upgrades in HTTP/2;
// browsers use them over TLS, and get along in HTTP/1.1.
func (in *GatewayInput) http(table string, ofMesh bool, common builder) *listenerv3.FilterChain {
	manager := common.manager("outbound_" + in.Name + ";")
	manager.RouteSpecifier = overRDS(table)
	manager.UseRemoteAddress = wrapperspb.Bool(true)
	common.namesServer(manager, serverName)
	behind(common.Topology, manager)
	if ofMesh {
		takeUpgradesInHTTP2(manager)
	}
	manager.HttpFilters = common.hearPeer(common.authFilters.http(common.httpFilters(false)))
	return httpChain(manager)
}
