package listener

import (
	"cmp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statevaluev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	setstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// blackHole is the cluster without endpoints (cluster.BlackHole).
const blackHole = "BlackHoleCluster"

// inspectorBuffer is how much the TLS inspector reads at first: most of a ClientHello. Envoy's
// default, 64 KiB for each connection, is far more than that.
const inspectorBuffer = 512

// TCP is an outbound listener of a port whose bytes are not HTTP.
func TCP(in TCPInput) *listenerv3.Listener {
	common := in.Common.orZero()
	l := &listenerv3.Listener{
		Name:                             in.Name,
		BindToPort:                       bound(in.BindToPort),
		TrafficDirection:                 corev3.TrafficDirection_OUTBOUND,
		ListenerFiltersTimeout:           pb.Duration(0),
		ContinueOnListenerFiltersTimeout: true,
		AccessLog:                        common.unmatchedLog(),
	}
	l.Address, l.AdditionalAddresses = common.outboundAddresses(in.Bind, in.Port)
	if in.RouteTable != "" {
		l.FilterChains = append(l.FilterChains, in.http(common))
		l.ListenerFilters = append(l.ListenerFilters, httpInspector())
		l.ListenerFiltersTimeout = pb.Duration(common.DetectionTimeout)
	}
	taken := claims{}
	for c := range in.Chains.All() {
		filters := c.filters(in.Name, common)
		for _, match := range taken.matches(c) {
			chain := &listenerv3.FilterChain{Name: c.Name, FilterChainMatch: match, Filters: filters}
			if len(match.GetServerNames()) > 0 || len(match.GetPrefixRanges()) > 0 {
				l.FilterChains = append(l.FilterChains, chain)
				continue
			}
			// The chain for the rest is the default one, so that it takes even connections which
			// match a part of another chain (its prefix, but not its SNI).
			chain.FilterChainMatch = nil
			l.DefaultFilterChain = chain
		}
	}
	if taken.bySNI || forwards(in.Chains) {
		l.ListenerFilters = slices.Insert(l.ListenerFilters, 0, listenerFilter("envoy.filters.listener.tls_inspector",
			&tlsinspectorv3.TlsInspector{InitialReadBufferSize: wrapperspb.UInt32(inspectorBuffer)}))
	}
	if len(l.FilterChains) == 0 && l.DefaultFilterChain != nil {
		l.FilterChains, l.DefaultFilterChain = []*listenerv3.FilterChain{l.DefaultFilterChain}, nil
	}
	return l
}

// http is the chain of requests in plaintext. Those within TLS look like HTTP too where a client
// offers that (ALPN), so the chain is for bytes that are not TLS.
func (in *TCPInput) http(common builder) *listenerv3.FilterChain {
	common.grpcWeb, common.dynamicDNS = byRoute(in.GRPCWeb), in.DynamicDNS
	chain := httpChain(common.outbound(in.Name, in.RouteTable))
	chain.FilterChainMatch = &listenerv3.FilterChainMatch{
		TransportProtocol:    "raw_buffer",
		ApplicationProtocols: inspected(common),
	}
	return chain
}

// forwards tells that some chain looks server names up, which the TLS inspector reads.
func forwards(chains *model.List[Chain]) bool {
	for c := range chains.All() {
		if c.ForwardPort != 0 {
			return true
		}
	}
	return false
}

// filters are the chain's: the proxy, behind the look-up of the server name if its target needs
// that.
func (c *Chain) filters(listener string, common builder) []*listenerv3.Filter {
	proxy := networkFilter(tcpProxyFilter, c.proxy(listener, common))
	if c.Bytes {
		says := networkFilter("envoy.filters.network.set_filter_state", common.bytesALPN())
		return common.connectionFilters(says, proxy)
	}
	if c.ForwardPort == 0 || c.Closed {
		return common.connectionFilters(proxy)
	}
	cache := pb.ForwardProxyCache()
	if c.DynamicDNS {
		cache = pb.DynamicDNSCache(common.Stack)
	}
	lookup := &snidfpv3.FilterConfig{
		DnsCacheConfig: cache,
		PortSpecifier:  &snidfpv3.FilterConfig_PortValue{PortValue: uint32(c.ForwardPort)},
	}
	return common.connectionFilters(networkFilter("envoy.filters.network.sni_dynamic_forward_proxy", lookup), proxy)
}

// bytesALPN sets the protocol (ALPN) by which the connection's TLS of the mesh tells that it
// carries bytes, in place of the cluster's. A proxy of Istio's build offers the exchange with its
// like, too.
func (c builder) bytesALPN() *setstatev3.Config {
	protocols := "istio"
	if c.Metrics.IstioFilters {
		protocols = pb.ExchangeProtocol + "," + protocols
	}
	return &setstatev3.Config{OnNewConnection: []*statevaluev3.FilterStateValue{{
		Key: &statevaluev3.FilterStateValue_ObjectKey{ObjectKey: "envoy.network.application_protocols"},
		Value: &statevaluev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: protocols},
			}},
		}},
	}}}
}

// proxy hands a chain's connections on.
func (c *Chain) proxy(listener string, common builder) *tcpv3.TcpProxy {
	p := &tcpv3.TcpProxy{}
	common.logConnections(p)
	c.target(p, listener)
	p.IdleTimeout = pb.OptionalDuration(max(common.IdleTimeout, 0))
	if c.IdleTimeout != 0 {
		p.IdleTimeout = pb.Duration(max(c.IdleTimeout, 0)) // Envoy takes 0 for never
	}
	p.MaxDownstreamConnectionDuration = pb.OptionalDuration(max(c.MaxDuration, 0))
	if c.Tunnel.Target != "" {
		p.TunnelingConfig = &tcpv3.TcpProxy_TunnelingConfig{Hostname: c.Tunnel.Target, UsePost: c.Tunnel.Post}
	}
	if c.HashSource {
		p.HashPolicy = []*typev3.HashPolicy{{PolicySpecifier: &typev3.HashPolicy_SourceIp_{
			SourceIp: &typev3.HashPolicy_SourceIp{},
		}}}
	}
	return p
}

// target says where connections go, and by what name they are counted: the cluster's, or the
// chain's if there are several.
func (c *Chain) target(p *tcpv3.TcpProxy, listener string) {
	var weighted []*tcpv3.TcpProxy_WeightedCluster_ClusterWeight
	for t := range c.Targets.All() {
		if t.Weight > 0 {
			weighted = append(weighted, &tcpv3.TcpProxy_WeightedCluster_ClusterWeight{
				Name:   t.Cluster,
				Weight: t.Weight,
			})
		}
	}
	switch {
	case c.Closed || c.Targets.Len() == 0:
		p.StatPrefix, p.ClusterSpecifier = blackHole, &tcpv3.TcpProxy_Cluster{Cluster: blackHole}
	case c.Targets.Len() == 1:
		only := c.Targets.At(0).Cluster
		p.StatPrefix, p.ClusterSpecifier = cmp.Or(c.StatName, only), &tcpv3.TcpProxy_Cluster{Cluster: only}
	case len(weighted) == 0:
		p.StatPrefix, p.ClusterSpecifier = blackHole, &tcpv3.TcpProxy_Cluster{Cluster: blackHole}
	default:
		p.StatPrefix = c.Name
		if p.StatPrefix == "" {
			p.StatPrefix = listener
		}
		p.ClusterSpecifier = &tcpv3.TcpProxy_WeightedClusters{
			WeightedClusters: &tcpv3.TcpProxy_WeightedCluster{Clusters: weighted},
		}
	}
}
