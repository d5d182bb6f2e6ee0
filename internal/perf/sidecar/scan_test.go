package sidecar

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func encoded(t testing.TB, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	return b
}

func packed(t testing.TB, m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	require.NoError(t, err)
	return a
}

// chain is a filter chain with a route table for each name, "" for one that is not HTTP.
func chain(t testing.TB, tables ...string) *listenerv3.FilterChain {
	c := &listenerv3.FilterChain{}
	for _, name := range tables {
		config := packed(t, &tcpv3.TcpProxy{StatPrefix: "tcp"})
		if name != "" {
			config = packed(t, &hcmv3.HttpConnectionManager{
				StatPrefix:     "http",
				RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: name}},
			})
		}
		c.Filters = append(c.Filters,
			&listenerv3.Filter{Name: "f", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config}})
	}
	return c
}

func TestScanFindsTheNamesInABody(t *testing.T) {
	eds := &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
	source := &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
	collection := func(name string) *endpointv3.LocalityLbEndpoints {
		return &endpointv3.LocalityLbEndpoints{LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{
			LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{LedsConfig: source,
				LedsCollectionName: name},
		}}
	}
	for _, c := range []struct {
		t    Type
		body proto.Message
		want findings
	}{
		{Cluster, &clusterv3.Cluster{Name: "c"}, findings{name: "c"}},
		{Cluster, &clusterv3.Cluster{Name: "c", ClusterDiscoveryType: eds}, findings{name: "c", refers: []string{"c"}}},
		{Cluster, &clusterv3.Cluster{Name: "c", ClusterDiscoveryType: eds,
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
				ServiceName: "s", EdsConfig: source,
			}}, findings{name: "c", refers: []string{"s"}}},
		{Endpoint, &endpointv3.ClusterLoadAssignment{ClusterName: "s"}, findings{name: "s"}},
		{Endpoint, &endpointv3.ClusterLoadAssignment{ClusterName: "s", Endpoints: []*endpointv3.LocalityLbEndpoints{
			collection("xdstp://b/*"), {}, collection("xdstp://a/*"),
		}}, findings{name: "s", refers: []string{"xdstp://a/*", "xdstp://b/*"}}},
		{Listener, &listenerv3.Listener{Name: "l"}, findings{name: "l"}},
		{Listener, &listenerv3.Listener{
			Name: "l", FilterChains: []*listenerv3.FilterChain{chain(t, "80", ""), chain(t, "", "90"),
				chain(t, "80")}, DefaultFilterChain: chain(t, "70"),
		}, findings{name: "l", refers: []string{"70", "80", "90"}}},
		{Route, &routev3.RouteConfiguration{Name: "r", VirtualHosts: []*routev3.VirtualHost{{Name: "v"}}},
			findings{name: "r"}},
		{Route, &routev3.RouteConfiguration{Name: "r", Vhds: &routev3.Vhds{ConfigSource: source}},
			findings{name: "r", vhds: true}},
		{VirtualHost, &routev3.VirtualHost{Name: "r/v", Domains: []string{"v"}}, findings{name: "r/v"}},
	} {
		got, err := scan(c.t, encoded(t, c.body))
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%s %v", c.t, c.body)
	}
	_, err := scan(Cluster, []byte{0x0a, 0x05, 'c'})
	require.Error(t, err)
}

func FuzzScan(f *testing.F) {
	f.Add(byte(Listener),
		encoded(f, &listenerv3.Listener{Name: "l", FilterChains: []*listenerv3.FilterChain{chain(f, "80")}}))
	f.Add(byte(Cluster),
		encoded(f, &clusterv3.Cluster{Name: "c",
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}}))
	// A name of another wire type is unknown to protobuf, and of two types the last one counts.
	f.Add(byte(Cluster), []byte("\x0b\x12\x01c\x10\x03\x0c"))
	f.Add(byte(Cluster), []byte("\x0a\x01c\x10\x03\xb2\x02\x00"))
	f.Add(byte(Cluster), []byte("\x0a\x01c\x10\x83\x80\x80\x80\x10\x1a\x03\x12\x01s\x1a\x00"))
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		found, err := scan(Type(kind)%NumTypes, body)
		if err != nil || Type(kind)%NumTypes != Cluster {
			return
		}
		// What is a cluster to the library is the same one to the scan.
		var c clusterv3.Cluster
		if proto.Unmarshal(body, &c) == nil {
			require.Equal(t, c.GetName(), found.name)
			require.Equal(t, c.GetType() == clusterv3.Cluster_EDS &&
				(c.GetName() != "" || c.GetEdsClusterConfig().GetServiceName() != ""), len(found.refers) == 1)
		}
	})
}
