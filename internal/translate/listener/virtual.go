package listener

import (
	"cmp"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Names of the listeners that intercepted connections come to.
const (
	VirtualOutboundName = "virtualOutbound"
	VirtualInboundName  = "virtualInbound"
)

// inboundPassthrough is the cluster that connects to a connection's original destination
// (cluster.Passthrough).
const inboundPassthrough = "InboundPassthroughCluster"

// transparentMark is on what a transparent proxy sends to its workload; the agent's rules look for
// it (intercept.Mark), and so do those of Istio.
const transparentMark = 1337

// VirtualOutbound takes the connections that the workload opens. It gives each to the listener that
// is for its original destination, the address with the port or else the port alone, and keeps what
// no listener is for.
func VirtualOutbound(in VirtualOutboundInput) *listenerv3.Listener {
	common := in.Common.orZero()
	listens := cmp.Or(in.Listens, model.StandardOutboundPort)
	l := &listenerv3.Listener{
		Name:             VirtualOutboundName,
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		UseOriginalDst:   wrapperspb.Bool(true),
		FilterChains: []*listenerv3.FilterChain{
			ownPort(VirtualOutboundName, listens),
			opaque(VirtualOutboundName+"-catchall-tcp", cmp.Or(in.To, blackHole), common),
		},
		AccessLog: common.unmatchedLog(),
	}
	l.Address, l.AdditionalAddresses = wildcardAddresses(common.Stack.Wildcards(), listens)
	return l
}

// VirtualInbound takes the connections that others open to the workload, and tells its ports apart
// by their original destination. What comes to a port that nobody named is handed on to where it
// goes. It is looked at only where TLS of the mesh is taken, or for a limited time: a client that
// waits for the server to speak first would wait for ever.
func VirtualInbound(in VirtualInboundInput) *listenerv3.Listener {
	common, listens := in.Common.inbound(in.AuthFilters), cmp.Or(in.Listens, model.StandardInboundPort)
	l := &listenerv3.Listener{
		Name:             VirtualInboundName,
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters: []*listenerv3.ListenerFilter{
			listenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{}),
		},
		ListenerFiltersTimeout:           pb.Duration(common.DetectionTimeout),
		ContinueOnListenerFiltersTimeout: true,
		FilterChains:                     []*listenerv3.FilterChain{ownPort(VirtualInboundName, listens)},
		AccessLog:                        common.unmatchedLog(),
	}
	l.Address, l.AdditionalAddresses = wildcardAddresses(common.Stack.Wildcards(), listens)
	if in.Transparent {
		l.Transparent = wrapperspb.Bool(true)
		l.ListenerFilters = append(l.ListenerFilters,
			listenerFilter("envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: transparentMark}))
	}
	var tls, http inspection
	tls.add(listens, false)
	http.add(listens, false)
	for p := range in.Ports.All() {
		if p.Port == listens {
			continue // that is the proxy's own
		}
		chains := p.chains(common)
		for _, chain := range chains {
			chain.Name = common.Stack.Wildcards()[0] + "_" + strconv.Itoa(int(p.Port))
		}
		l.FilterChains = append(l.FilterChains, forPort(p.Port, chains)...)
		tls.add(p.Port, p.TakesTLS)
		http.add(p.Port, p.Protocol == model.Auto)
	}
	for p := range in.Undeclared.All() {
		if p.Port != listens {
			l.FilterChains = append(l.FilterChains, forPort(p.Port, p.chains(common))...)
			tls.add(p.Port, p.TakesTLS)
			http.add(p.Port, p.looksForRequests(common))
		}
	}
	lookAt(l, tlsInspector(), tls, in.Others.TakesTLS)
	lookAt(l, httpInspector(), http, in.Others.looksForRequests(common))
	l.FilterChains = append(l.FilterChains, in.Others.chains(common)...)
	return l
}

// inspection is the ports at whose connections an inspector looks, and those at which it does not.
type inspection struct{ at, not []uint16 }

func (i *inspection) add(port uint16, looks bool) {
	if looks {
		i.at = append(i.at, port)
	} else {
		i.not = append(i.not, port)
	}
}

// forPort limits chains to connections to a port.
func forPort(port uint16, chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	for _, chain := range chains {
		if chain.FilterChainMatch == nil {
			chain.FilterChainMatch = &listenerv3.FilterChainMatch{}
		}
		chain.FilterChainMatch.DestinationPort = wrapperspb.UInt32(uint32(port))
	}
	return chains
}

// lookAt has an inspector look at the first bytes of connections to some ports; with others, of all
// but those to the ports that it leaves out.
func lookAt(l *listenerv3.Listener, inspector *listenerv3.ListenerFilter, ports inspection, others bool) {
	switch {
	case others:
		inspector.FilterDisabled = onPorts(ports.not)
	case len(ports.at) > 0:
		inspector.FilterDisabled = not(onPorts(ports.at))
	default:
		return
	}
	l.ListenerFilters = append(l.ListenerFilters, inspector)
}

// ownPort closes connections to the listener's own port: handed on to their destination, they would
// come back for ever.
func ownPort(listener string, port uint16) *listenerv3.FilterChain {
	chain := opaque(listener+"-blackhole", blackHole, builder{})
	chain.FilterChainMatch = &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(uint32(port))}
	return chain
}

// opaque is a chain that hands bytes on to a cluster.
func opaque(name, cluster string, common builder) *listenerv3.FilterChain {
	if common.authFilters.closes() {
		cluster = blackHole
	}
	proxy := &tcpv3.TcpProxy{
		StatPrefix:       cluster,
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: cluster},
		IdleTimeout:      pb.OptionalDuration(max(common.IdleTimeout, 0)),
	}
	common.logConnections(proxy)
	return &listenerv3.FilterChain{Name: name, Filters: common.connectionFilters(networkFilter(tcpProxyFilter, proxy))}
}

// onPorts holds for connections to one of some ports.
func onPorts(ports []uint16) *listenerv3.ListenerFilterChainMatchPredicate {
	of := make([]*listenerv3.ListenerFilterChainMatchPredicate, 0, len(ports))
	for _, p := range ports {
		of = append(of, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(p), End: int32(p) + 1},
			},
		})
	}
	if len(of) == 1 {
		return of[0] // Envoy wants two for "or"
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
		OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: of},
	}}
}

func not(m *listenerv3.ListenerFilterChainMatchPredicate) *listenerv3.ListenerFilterChainMatchPredicate {
	return &listenerv3.ListenerFilterChainMatchPredicate{
		Rule: &listenerv3.ListenerFilterChainMatchPredicate_NotMatch{NotMatch: m},
	}
}
