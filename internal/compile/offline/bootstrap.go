package offline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Bootstrap returns a bootstrap in JSON that has resources as static ones, so that an Envoy judges
// them (envoy --mode validate). Those without what it takes to be one are left out. Nobody answers
// at the addresses in it.
func Bootstrap(all []Patched, with bool) ([]byte, error) {
	b := bootstrap{names: map[string]bool{}}
	for i := range all {
		r := all[i].With
		if !with {
			r = all[i].Without
		}
		if r == nil {
			continue
		}
		if err := b.add(all[i].Type, r); err != nil {
			return nil, fmt.Errorf("%s %s: %w", all[i].Type, r.Name(), err)
		}
	}
	if len(all) > 0 {
		b.addClusters(all[0].clusters)
	}
	return protojson.Marshal(b.message())
}

// bootstrap gathers static resources.
type bootstrap struct {
	clusters  []*clusterv3.Cluster
	listeners []*listenerv3.Listener
	names     map[string]bool // of clusters
}

// own is how resources are judged that depend on a proxy's own addresses.
var own = resource.Overlay{Pod: "192.0.2.1", App: "127.0.0.1", Outbound: "127.0.0.1"}

func (b *bootstrap) add(typ resource.Type, r *resource.Resource) error {
	body := own.Body(typ, r)
	switch typ {
	case resource.Cluster:
		var c clusterv3.Cluster
		if err := proto.Unmarshal(body, &c); err != nil {
			return err
		}
		if !b.names[c.GetName()] {
			b.clusters = append(b.clusters, &c)
		}
		b.names[c.GetName()] = true
	case resource.Listener:
		var l listenerv3.Listener
		if err := proto.Unmarshal(body, &l); err != nil {
			return err
		}
		l.Name = fmt.Sprintf("%s %d", l.GetName(), len(b.listeners))
		b.listeners = append(b.listeners, &l)
	case resource.Route:
		var t routev3.RouteConfiguration
		if err := proto.Unmarshal(body, &t); err != nil {
			return err
		}
		t.Vhds = nil
		return b.addTable(&t)
	case resource.VirtualHost:
		var h routev3.VirtualHost
		if err := proto.Unmarshal(body, &h); err != nil {
			return err
		}
		return b.addTable(&routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{&h}})
	case resource.Filter:
		var f corev3.TypedExtensionConfig
		if err := proto.Unmarshal(body, &f); err != nil {
			return err
		}
		return b.addFilter(&f)
	default: // patches change nothing else
	}
	return nil
}

// addTable adds a listener with a route table.
func (b *bootstrap) addTable(t *routev3.RouteConfiguration) error {
	t.ValidateClusters = wrapperspb.Bool(false)
	return b.addManager(t)
}

// addFilter adds a listener with a filter, of requests or of connections.
func (b *bootstrap) addFilter(f *corev3.TypedExtensionConfig) error {
	if strings.Contains(f.GetTypedConfig().GetTypeUrl(), ".filters.network.") {
		return b.addManager(&routev3.RouteConfiguration{}, &listenerv3.Filter{
			Name: f.GetName(), ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: f.GetTypedConfig()},
		})
	}
	return b.addManager(&routev3.RouteConfiguration{}, &hcmv3.HttpFilter{
		Name: f.GetName(), ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: f.GetTypedConfig()},
	})
}

// addManager adds a listener with a connection manager, and filters in it or in front of it.
func (b *bootstrap) addManager(t *routev3.RouteConfiguration, filters ...proto.Message) error {
	router, err := anypb.New(&routerv3.Router{})
	if err != nil {
		return err
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "judged", RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: t},
	}
	chain := &listenerv3.FilterChain{}
	for _, f := range filters {
		switch f := f.(type) {
		case *hcmv3.HttpFilter:
			manager.HttpFilters = append(manager.HttpFilters, f)
		case *listenerv3.Filter:
			chain.Filters = append(chain.Filters, f)
		}
	}
	manager.HttpFilters = append(manager.HttpFilters, &hcmv3.HttpFilter{
		Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
	})
	config, err := anypb.New(manager)
	if err != nil {
		return err
	}
	chain.Filters = append(chain.Filters, &listenerv3.Filter{
		Name: "manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config},
	})
	b.listeners = append(b.listeners, &listenerv3.Listener{
		Name:         fmt.Sprintf("judged %d", len(b.listeners)),
		Address:      socket("127.0.0.1", uint32(1+len(b.listeners)%60000)),
		FilterChains: []*listenerv3.FilterChain{chain},
	})
	return nil
}

// addClusters adds clusters that resources may name, without endpoints.
func (b *bootstrap) addClusters(names map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !b.names[name] {
			b.names[name] = true
			b.clusters = append(b.clusters, &clusterv3.Cluster{
				Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
			})
		}
	}
}

func (b *bootstrap) message() *bootstrapv3.Bootstrap {
	const server = "xds-grpc"
	stream := &corev3.ApiConfigSource{
		ApiType: corev3.ApiConfigSource_DELTA_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
		GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: server},
		}}},
	}
	// the agent's clusters stand in the bootstrap of each proxy
	clusters := []*clusterv3.Cluster{nobodyAt(server), nobodyAt("sds-grpc")}
	return &bootstrapv3.Bootstrap{
		Node: &corev3.Node{
			Id: "sidecar~192.0.2.1~judged.default~default.svc.cluster.local", Cluster: "judged",
		},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{AdsConfig: stream},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters: append(clusters, b.clusters...), Listeners: b.listeners,
		},
	}
}

// nobodyAt is a cluster with an endpoint at which nobody listens.
func nobodyAt(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
					Endpoint: &endpointv3.Endpoint{Address: socket("127.0.0.1", 1)},
				},
			}}}},
		},
	}
}

func socket(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
