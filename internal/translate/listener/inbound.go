package listener

import (
	"cmp"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// inboundRetries is how often a request is tried again that the workload's process cannot have
// seen: it closed an idle connection while the request was under way.
const inboundRetries = 2

// Inbound is a listener on the workload's own address for one of its ports. A port that does not
// say what it speaks is looked at: HTTP if the first bytes are, opaque bytes else. There is no
// timeout to that unless the mesh sets one, as in Istio: a client may open a connection long before
// it sends, and must not lose HTTP by it. Workloads that speak first declare their port as TCP.
func Inbound(in InboundInput) *listenerv3.Listener {
	common := in.Common.inbound(in.AuthFilters)
	l := &listenerv3.Listener{
		Name:                             in.Name,
		Address:                          pb.Address(in.Bind, in.Port),
		TrafficDirection:                 corev3.TrafficDirection_INBOUND,
		ListenerFiltersTimeout:           pb.Duration(common.DetectionTimeout),
		ContinueOnListenerFiltersTimeout: true,
		AccessLog:                        common.unmatchedLog(),
	}
	l.FilterChains = in.chains(common)
	if in.TakesTLS {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector())
	}
	if in.Protocol == model.Auto {
		l.ListenerFilters = append(l.ListenerFilters, httpInspector())
	}
	return l
}

// chains are those of the port: for connections in TLS of the mesh, if it takes them, and for all
// others.
func (in *InboundPort) chains(common builder) []*listenerv3.FilterChain {
	if in.TLS != nil {
		return []*listenerv3.FilterChain{in.ended(common)}
	}
	var chains []*listenerv3.FilterChain
	if in.TakesTLS {
		chains = in.secureChains(common)
	}
	return append(chains, in.plainChains(common)...)
}

// ended is the chain of a port that takes TLS of clients outside of the mesh alone.
func (in *InboundPort) ended(common builder) *listenerv3.FilterChain {
	server := ServerChain{TLS: in.TLS, FilesByAgent: in.FilesByAgent}
	chain := in.tcp(common)
	if in.Protocol.IsHTTP() {
		server.RouteTable = in.Cluster // it says that there are requests
		chain = in.http(common)
	}
	chain.TransportSocket = server.terminate(common)
	return chain
}

// plainChains are of HTTP, of bytes, or of either.
func (in *InboundPort) plainChains(common builder) []*listenerv3.FilterChain {
	switch {
	case in.Protocol.IsHTTP():
		return []*listenerv3.FilterChain{in.http(common)}
	case in.Protocol == model.Auto:
		http := in.http(common)
		http.FilterChainMatch = &listenerv3.FilterChainMatch{ApplicationProtocols: inspected(common)}
		return []*listenerv3.FilterChain{http, in.tcp(common)}
	default:
		return []*listenerv3.FilterChain{in.tcp(common)}
	}
}

func httpInspector() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{})
}

// inspected are the protocols that count as HTTP when bytes are looked at. HTTP/1.0 does only where
// it is taken: as opaque bytes it gets through, as HTTP it would be refused.
func inspected(c builder) []string {
	if c.HTTP10 {
		return []string{"http/1.0", "http/1.1", "h2c"}
	}
	return []string{"http/1.1", "h2c"}
}

func (in *InboundPort) http(common builder) *listenerv3.FilterChain {
	if in.Protocol == model.GRPCWeb {
		common.grpcWeb = grpcWebOn
	}
	manager := common.manager(in.Name + ";")
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: in.routes(common)}
	manager.UseRemoteAddress = wrapperspb.Bool(false)
	common.namesServer(manager, serverName)
	common.clientCert(manager)
	manager.HttpFilters = common.hearPeer(withDenyAll(in.Refuses, common.authFilters.http(common.httpFilters(false))))
	takeUpgradesInHTTP2(manager)
	chain := httpChain(manager)
	chain.Name = in.Name
	return chain
}

// routes sends every request to the workload's process. The caller's proxy has applied the
// timeouts, so there is none.
func (in *InboundPort) routes(common builder) *routev3.RouteConfiguration {
	port := strconv.Itoa(int(in.Port))
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: in.Cluster},
		Timeout:          pb.Duration(0),
		MaxStreamDuration: &routev3.RouteAction_MaxStreamDuration{
			MaxStreamDuration:    pb.Duration(0),
			GrpcTimeoutHeaderMax: pb.Duration(0),
		},
	}
	if !in.Protocol.IsGRPC() { // the condition does not do well with gRPC's streams
		action.RetryPolicy = &routev3.RetryPolicy{
			RetryOn:    "reset-before-request",
			NumRetries: wrapperspb.UInt32(inboundRetries),
		}
	}
	return &routev3.RouteConfiguration{
		Name:                   in.Cluster,
		ValidateClusters:       wrapperspb.Bool(false),
		RequestHeadersToRemove: hidden(),
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    "inbound|http|" + port,
			Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Name:      "default",
				Match:     &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action:    &routev3.Route_Route{Route: action},
				Decorator: common.takenName(port),
			}},
		}},
	}
}

func (in *InboundPort) tcp(common builder) *listenerv3.FilterChain {
	proxy := &tcpv3.TcpProxy{
		StatPrefix:       cmp.Or(in.StatName, in.Cluster),
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: in.Cluster},
		IdleTimeout:      pb.OptionalDuration(max(common.IdleTimeout, 0)),
	}
	common.logConnections(proxy)
	if in.Refuses || common.authFilters.closes() {
		proxy.StatPrefix, proxy.ClusterSpecifier = blackHole, &tcpv3.TcpProxy_Cluster{Cluster: blackHole}
	}
	handOn := networkFilter(tcpProxyFilter, proxy)
	return &listenerv3.FilterChain{Name: in.Name, Filters: common.connectionFilters(handOn)}
}
