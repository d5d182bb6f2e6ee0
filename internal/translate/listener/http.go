package listener

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// gatewayHandshake is how long a client of a gateway may take to open a connection (TLS, once there
// is some), so that half-open ones cannot pile up.
const gatewayHandshake = 15 * time.Second

// HTTP is an outbound HTTP listener.
//
// On the HTTP proxy port, clients send requests in absolute form, "GET http://reviews:9080/
// HTTP/1.1", which Envoy takes by default and routes by the host in it. CONNECT is answered with
// 404: only a route with a connect matcher takes it, and there is none, as a tunnel would bypass
// all others. A client's TLS goes through a listener of its own, by SNI.
func HTTP(in HTTPInput) *listenerv3.Listener {
	common := in.Common.orZero()
	common.dynamicDNS = in.DynamicDNS
	manager := common.outbound(in.Name, in.RouteTable)
	manager.HttpFilters = common.hearPeer(common.httpFilters(in.ProxyUnknown))
	l := &listenerv3.Listener{
		Name:                             in.Name,
		BindToPort:                       bound(in.BindToPort),
		TrafficDirection:                 corev3.TrafficDirection_OUTBOUND,
		FilterChains:                     []*listenerv3.FilterChain{httpChain(manager)},
		ListenerFiltersTimeout:           pb.Duration(0),
		ContinueOnListenerFiltersTimeout: true,
		AccessLog:                        common.unmatchedLog(),
	}
	l.Address, l.AdditionalAddresses = common.outboundAddresses(in.Bind, in.Port)
	return l
}

// outbound is the connection manager of a workload's own requests.
func (c builder) outbound(name, table string) *hcmv3.HttpConnectionManager {
	manager := c.manager("outbound_" + name + ";")
	manager.RouteSpecifier = overRDS(table)
	manager.UseRemoteAddress = wrapperspb.Bool(c.RemoteAddress)
	manager.HttpFilters = c.hearPeer(c.httpFilters(false))
	return manager
}

// manager is a connection manager with what all of them have. The caller adds where routes and
// addresses come from.
//
// A stream may be silent for as long as it likes: a watch or a long poll is not broken by being
// quiet, and timeouts of requests are those of their routes. The request id is made where there is
// none, which is Envoy's default.
func (c builder) manager(statPrefix string) *hcmv3.HttpConnectionManager {
	m := &hcmv3.HttpConnectionManager{
		CodecType:         hcmv3.HttpConnectionManager_AUTO,
		StatPrefix:        statPrefix,
		NormalizePath:     wrapperspb.Bool(c.Paths != model.NormalizeNone),
		MergeSlashes:      c.Paths == model.NormalizeMergeSlashes || c.Paths == model.NormalizeDecode,
		StreamIdleTimeout: pb.Duration(0),
		UpgradeConfigs:    []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		AccessLog:         c.requestLog(),
		Proxy_100Continue: true,
		// An escaped slash is no separator to most applications, so the mesh has to ask for this.
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
	}
	if c.Paths == model.NormalizeDecode {
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	}
	if c.IdleTimeout > 0 {
		m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: pb.Duration(c.IdleTimeout)}
	}
	if c.HTTP10 {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{AcceptHttp_10: true}
	}
	c.headers(m)
	c.connections(m)
	c.trace(m)
	return m
}

// takeUpgradesInHTTP2 takes WebSockets in HTTP/2 (extended CONNECT, RFC 8441), as callers within
// the mesh send them where they are told to use HTTP/2. To filters and routes they are what they
// are in HTTP/1.1: a GET with its path, and an upgrade. CONNECT without an upgrade stays refused,
// and so do upgrades to anything else.
func takeUpgradesInHTTP2(m *hcmv3.HttpConnectionManager) {
	if m.Http2ProtocolOptions == nil {
		m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{}
	}
	m.Http2ProtocolOptions.AllowConnect = true
}

// overRDS takes the routes from the stream. The fetch has no timeout: a listener opens with its
// routes or not at all.
func overRDS(table string) *hcmv3.HttpConnectionManager_Rds {
	return &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
		RouteConfigName: table,
		ConfigSource:    pb.OverADSWithoutTimeout(),
	}}
}

// httpFilters are those behind the filters of policies: what routes configure, and the router.
func (c builder) httpFilters(forwardProxy bool) []*hcmv3.HttpFilter {
	filters := append(c.grpcWeb.filters(), c.routeFilters()...)
	if forwardProxy {
		filters = append(filters, httpFilter("envoy.filters.http.dynamic_forward_proxy", &dfpv3.FilterConfig{
			ImplementationSpecifier: &dfpv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: pb.ForwardProxyCache()},
		}))
	}
	if c.dynamicDNS {
		filter := httpFilter(pb.DynamicDNSFilter, &dfpv3.FilterConfig{
			ImplementationSpecifier: &dfpv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: pb.DynamicDNSCache(c.Stack)},
		})
		filter.Disabled = true
		filters = append(filters, filter)
	}
	return append(c.countRequests(c.countMessages(filters)), c.router())
}

// grpcWeb says whether a listener translates gRPC-Web, which browsers speak, to gRPC and back.
type grpcWeb uint8

const (
	grpcWebOff grpcWeb = iota
	// grpcWebByRoute does so for the virtual hosts that turn it on: hosts share the listener.
	grpcWebByRoute
	grpcWebOn
)

// filters are the filter that translates, if there is one. Requests of other content pass it.
func (w grpcWeb) filters() []*hcmv3.HttpFilter {
	if w == grpcWebOff {
		return nil
	}
	filter := httpFilter(pb.GRPCWebFilter, &grpcwebv3.GrpcWeb{})
	filter.Disabled = w == grpcWebByRoute
	return []*hcmv3.HttpFilter{filter}
}

// byRoute is grpcWebByRoute where hosts on the listener want it.
func byRoute(wanted bool) grpcWeb {
	if wanted {
		return grpcWebByRoute
	}
	return grpcWebOff
}

// routeFilters are the filters that routes configure, in Istio's order. They cost each request that
// passes them, so a sidecar has them for no request whose route does not configure them: the routes
// of a workload's calls turn them on, and calls to it have no such routes. A gateway has them for
// all, since its policies may choose another route later, by a claim.
func (c builder) routeFilters() []*hcmv3.HttpFilter {
	if c.reporter == proxystats.Destination {
		return nil
	}
	filters := []*hcmv3.HttpFilter{
		httpFilter("envoy.filters.http.fault", &faultv3.HTTPFault{}),
		httpFilter("envoy.filters.http.cors", &corsv3.Cors{}),
	}
	if c.Sessions {
		filters = append(filters, httpFilter(pb.SessionFilter, &sessionv3.StatefulSession{}))
	}
	for _, f := range filters {
		f.Disabled = !c.ofGateway
	}
	return filters
}

func httpFilter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pb.Any(config)}}
}

func httpChain(manager *hcmv3.HttpConnectionManager) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{Filters: []*listenerv3.Filter{networkFilter(connectionManagerFilter, manager)}}
}
