package adscript

import (
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The builders return messages that a test may change before it sends them. A fetch is an
// initial_fetch_timeout; negative leaves it unset, which is 15 s.

// EDSCluster gets its endpoints under its own name, or under service if that is not "".
func EDSCluster(name, service string, fetch time.Duration) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{ServiceName: service, EdsConfig: overADS(fetch)},
		CommonLbConfig:       &clusterv3.Cluster_CommonLbConfig{UpdateMergeWindow: durationpb.New(0)},
	}
}

// StaticCluster has its endpoints, host:port, in itself.
func StaticCluster(name string, endpoints ...string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment:       Assignment(name, endpoints...),
	}
}

// Assignment has endpoints, host:port, in one locality, and without any no locality.
func Assignment(cluster string, endpoints ...string) *endpointv3.ClusterLoadAssignment {
	a := &endpointv3.ClusterLoadAssignment{ClusterName: cluster}
	if len(endpoints) == 0 {
		return a
	}
	group := &endpointv3.LocalityLbEndpoints{}
	for _, e := range endpoints {
		group.LbEndpoints = append(group.LbEndpoints, Member(e))
	}
	a.Endpoints = []*endpointv3.LocalityLbEndpoints{group}
	return a
}

// Member is one endpoint, host:port; it is also a resource of type Members.
func Member(endpoint string) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
		Endpoint: &endpointv3.Endpoint{Address: address(endpoint)},
	}}
}

// CollectionAssignment has one locality, whose endpoints are the LEDS collection of that name: see
// Collection.
func CollectionAssignment(cluster, collection string, fetch time.Duration) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: cluster, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{
			LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{
				LedsConfig: overADS(fetch), LedsCollectionName: Collection(collection) + "*",
			},
		},
	}}}
}

// Collection is what the names of the members of a LEDS collection begin with; with a "*" behind
// it, what Envoy asks for.
func Collection(name string) string {
	return "xdstp://adscript/envoy.config.endpoint.v3.LbEndpoint/" + name + "/"
}

// PushMembers is a response with members of a collection: an endpoint host:port each, which is also
// its name there.
func PushMembers(version, collection string, endpoints ...string) Response {
	r := Response{Type: Members, Version: version}
	for _, e := range endpoints {
		r.Resources = append(r.Resources, Resource{Name: Collection(collection) + e, Version: version, Body: Member(e)})
	}
	return r
}

// HTTPListener listens on a port of 127.0.0.1 that it chooses itself, and asks for its routes.
func HTTPListener(name, routes string, fetch time.Duration) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: name, Address: address("127.0.0.1:0"),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: mustAny(&hcmv3.HttpConnectionManager{
				StatPrefix: name,
				RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
					ConfigSource: overADS(fetch), RouteConfigName: routes,
				}},
				HttpFilters: []*hcmv3.HttpFilter{{
					Name:       "router",
					ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: mustAny(&routerv3.Router{})},
				}},
			})},
		}}}},
	}
}

// RouteTable has its virtual hosts in itself.
func RouteTable(name string, hosts ...*routev3.VirtualHost) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: hosts}
}

// VHDSRouteTable gets its virtual hosts as resources of their own, named "<name>/…".
func VHDSRouteTable(name string, fetch time.Duration) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: name, Vhds: &routev3.Vhds{ConfigSource: overADS(fetch)}}
}

// VirtualHost sends all requests for its domains to a cluster.
func VirtualHost(name, cluster string, domains ...string) *routev3.VirtualHost {
	return virtualHost(name, domains, &routev3.Route{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
	}}})
}

// AnsweringHost answers all requests for its domains itself, with 200 and a body.
func AnsweringHost(name, body string, domains ...string) *routev3.VirtualHost {
	return virtualHost(name, domains,
		&routev3.Route{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}},
		}}})
}

func virtualHost(name string, domains []string, route *routev3.Route) *routev3.VirtualHost {
	route.Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	return &routev3.VirtualHost{Name: name, Domains: domains, Routes: []*routev3.Route{route}}
}

func overADS(fetch time.Duration) *corev3.ConfigSource {
	source := &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
	if fetch >= 0 {
		source.InitialFetchTimeout = durationpb.New(fetch)
	}
	return source
}

// address takes host:port; a host that is no IP address is sent as it is, for tests of what Envoy
// says to that.
func address(endpoint string) *corev3.Address {
	socket := &corev3.SocketAddress{Address: endpoint, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}}
	if ap, err := netip.ParseAddrPort(endpoint); err == nil {
		socket.Address = ap.Addr().String()
		socket.PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: uint32(ap.Port())}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: socket}}
}

func mustAny(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err) // messages of this file, which always encode
	}
	return a
}
