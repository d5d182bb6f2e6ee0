package cluster_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	proxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

func TestInputsAreMemoKeys(t *testing.T) {
	for _, in := range []any{cluster.OutboundInput{}, cluster.InboundInput{}, cluster.PassthroughInput{}} {
		translatetest.RequireInput(t, in)
	}
}

func TestClusterNamesAreIstios(t *testing.T) {
	require.Equal(t, "outbound|9080|v1|reviews.default.svc.cluster.local", cluster.Name(
		9080, "v1", "reviews.default.svc.cluster.local",
	))
	require.Equal(t, "outbound|80||a.test", cluster.Outbound(cluster.OutboundInput{Host: "a.test", Port: 80}).GetName())
	require.Equal(t, "inbound|9080||", cluster.Inbound(cluster.InboundInput{Port: 9080}).GetName())
	require.Equal(t, "PassthroughCluster", cluster.Passthrough(cluster.PassthroughInput{}).GetName())
	require.Equal(t, "PassthroughCluster", cluster.Passthrough(cluster.PassthroughInput{ForwardProxy: true}).GetName())
	require.Equal(t, "BlackHoleCluster", cluster.BlackHole().GetName())
}

// TestEffectiveMergesPolicySubsetAndPort states the merge as a rule for each block, in other words
// than the code: who has the last word.
func TestEffectiveMergesPolicySubsetAndPort(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policy := rapid.Ptr(rapid.Custom(drawPolicy), true).Draw(rt, "policy")
		subset := rapid.Ptr(rapid.Custom(drawPolicy), true).Draw(rt, "subset")
		port := rapid.Uint16Range(1, 4).Draw(rt, "port")
		got := cluster.Effective(policy, subset, nil, port)
		require.Empty(rt, got.Ports)

		base, announces := policy, announced(policy)
		if own := ownOf(policy, port); own != nil {
			base, announces = own, model.NoProxyProtocol
		}
		if own := ownOf(subset, port); own != nil {
			want := *own
			want.Announces = announces
			require.Equal(rt, want, got, "the subset's settings for the port are all else that counts")
			return
		}
		require.Equal(rt, cmp.Or(announced(subset), announces), got.Announces)
		require.Same(rt, lastWord(lb(base), lb(subset)), got.LB)
		require.Same(rt, lastWord(pool(base), pool(subset)), got.Pool)
		require.Same(rt, lastWord(outlier(base), outlier(subset)), got.Outlier)
		require.Same(rt, lastWord(tls(base), tls(subset)), got.TLS)
	})
}

func announced(p *model.TrafficPolicy) model.ProxyProtocol {
	if p == nil {
		return model.NoProxyProtocol
	}
	return p.Announces
}

func ownOf(p *model.TrafficPolicy, port uint16) *model.TrafficPolicy {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.Ports, func(pp model.PortPolicy) bool { return pp.Port == port })
	if i < 0 {
		return nil
	}
	return p.Ports[i].Policy
}

func lastWord[T any](base, subset *T) *T {
	if subset != nil {
		return subset
	}
	return base
}

func lb(p *model.TrafficPolicy) *model.LoadBalancer {
	if p == nil {
		return nil
	}
	return p.LB
}

func pool(p *model.TrafficPolicy) *model.ConnectionPool {
	if p == nil {
		return nil
	}
	return p.Pool
}

func outlier(p *model.TrafficPolicy) *model.OutlierDetection {
	if p == nil {
		return nil
	}
	return p.Outlier
}

func tls(p *model.TrafficPolicy) *model.ClientTLS {
	if p == nil {
		return nil
	}
	return p.TLS
}

// TestTLSNeverFailsOpen is the rule that matters most: where a rule asks for TLS, there is TLS or
// there are no endpoints.
func TestTLSNeverFailsOpen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawOutbound(rt)
		c := cluster.Outbound(in)
		effective := cluster.Effective(in.Policy, in.SubsetPolicy, in.Backend, in.Port)
		want := effective.TLS
		c.TransportSocket = within(rt, c.GetTransportSocket(), effective.Announces)
		switch {
		case want == nil:
			require.True(rt, in.AutoTLS || c.GetTransportSocket() == nil && len(c.GetTransportSocketMatches()) == 0)
			return
		case want.Mode == model.Disable:
			require.Nil(rt, c.GetTransportSocket())
		case want.Mode == model.Unusable, want.Mode == model.Mutual && (want.CertFile == "" || want.KeyFile == ""):
			require.True(rt, isClosed(c), "want a closed cluster, got %v", c)
		default:
			require.True(
				rt, isClosed(c) || c.GetTransportSocket().GetName() == "envoy.transport_sockets.tls", "plaintext: %v",
				c,
			)
		}
		require.Empty(rt, c.GetTransportSocketMatches(), "the rule has the say")
	})
}

// within returns what the PROXY protocol stands before; nil for plaintext.
func within(
	t require.TestingT, socket *corev3.TransportSocket, announces model.ProxyProtocol,
) *corev3.TransportSocket {
	if announces == model.NoProxyProtocol || socket == nil {
		return socket
	}
	outer := &proxyv3.ProxyProtocolUpstreamTransport{}
	require.NoError(t, socket.GetTypedConfig().UnmarshalTo(outer))
	if outer.GetTransportSocket().GetName() == "envoy.transport_sockets.raw_buffer" {
		return nil
	}
	return outer.GetTransportSocket()
}

func isClosed(c *clusterv3.Cluster) bool {
	return c.GetType() == clusterv3.Cluster_STATIC && c.GetClusterType() == nil && c.GetLoadAssignment() == nil
}

func TestDNSClustersWithoutANameAreClosed(t *testing.T) {
	for _, endpoints := range [][]cluster.Lookup{nil, {{Address: "", Port: 80}}, {{Address: "a.test"}}} {
		for _, resolution := range []model.Resolution{model.StrictDNS, model.LogicalDNS} {
			require.True(t, isClosed(cluster.Outbound(cluster.OutboundInput{
				Host:       "a.test",
				Port:       80,
				Resolution: resolution,
				Endpoints:  grouped(endpoints...),
			})))
		}
	}
}

// grouped are endpoints of one locality.
func grouped(members ...cluster.Lookup) *model.List[cluster.LookupGroup] {
	return model.NewInterner[cluster.LookupGroup]().List([]cluster.LookupGroup{{
		Members: model.NewInterner[cluster.Lookup]().List(members),
	}})
}

func TestLogicalDNSOfSeveralNamesIsStrict(t *testing.T) {
	c := cluster.Outbound(cluster.OutboundInput{Host: "a.test", Port: 80, Resolution: model.LogicalDNS,
		Endpoints: grouped(cluster.Lookup{Address: "a.test", Port: 80}, cluster.Lookup{Address: "b.test", Port: 80}),
	})
	require.Equal(t, clusterv3.Cluster_STRICT_DNS, c.GetType())
	require.Len(t, c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints(), 2)
}

// TestLookupsHaveTheirPlaceAndState: what callers see of an endpoint stands beside its address.
func TestLookupsHaveTheirPlaceAndState(t *testing.T) {
	c := cluster.Outbound(cluster.OutboundInput{
		Host: "a.test", Port: 80, Resolution: model.StrictDNS, LocalityWeights: true, AutoTLS: true,
		Endpoints: model.NewInterner[cluster.LookupGroup]().List([]cluster.LookupGroup{{
			Locality: model.Locality{Region: "r"}, Priority: 1, Weight: 3,
			Members: model.NewInterner[cluster.Lookup]().List([]cluster.Lookup{
				{Address: "b.test", Port: 81, Weight: 2, Health: model.Unhealthy, Workload: "w", TLS: true},
				{Address: "c.test", Port: 81, Health: model.Draining},
			}),
		}}),
	})
	require.NotNil(t, c.GetCommonLbConfig().GetLocalityWeightedLbConfig())
	require.Equal(t, "tlsMode-istio", c.GetTransportSocketMatches()[0].GetName())
	group := c.GetLoadAssignment().GetEndpoints()[0]
	require.Equal(t, uint32(1), group.GetPriority())
	require.Equal(t, uint32(3), group.GetLoadBalancingWeight().GetValue())
	require.Equal(t, "r", group.GetLocality().GetRegion())
	first, second := group.GetLbEndpoints()[0], group.GetLbEndpoints()[1]
	require.Equal(t, corev3.HealthStatus_UNHEALTHY, first.GetHealthStatus())
	require.Equal(t, corev3.HealthStatus_DRAINING, second.GetHealthStatus())
	require.Nil(t, second.GetMetadata())
	metadata := first.GetMetadata().GetFilterMetadata()
	require.True(t, proto.Equal(pb.TakesMeshTLS(), metadata["envoy.transport_socket_match"]))
	require.Equal(t, "w", metadata["istio"].GetFields()["workload"].GetStringValue())
}

func TestEndpointsThatDrainAreNeverCalledInPanic(t *testing.T) {
	c := cluster.Outbound(cluster.OutboundInput{Host: "a.test", Port: 80})
	require.NotNil(t, c.GetCommonLbConfig().GetHealthyPanicThreshold())
	require.Zero(t, c.GetCommonLbConfig().GetHealthyPanicThreshold().GetValue())
}

func TestTableSizesThatEnvoyRefusesAreItsDefault(t *testing.T) {
	sized := func(n uint64) *clusterv3.Cluster {
		return cluster.Outbound(cluster.OutboundInput{Host: "a.test", Port: 80,
			Policy: &model.TrafficPolicy{LB: &model.LoadBalancer{Kind: model.Maglev, MaglevTableSize: n}}})
	}
	require.Equal(t, uint64(65537), sized(65537).GetMaglevLbConfig().GetTableSize().GetValue())
	require.Nil(t, sized(65536).GetMaglevLbConfig())
	require.Equal(t, uint64(5000011), sized(1<<40).GetMaglevLbConfig().GetTableSize().GetValue())
}

// TestForwardProxiesShareOneCache: Envoy refuses a second use of a DNS cache's name with another
// configuration.
func TestForwardProxiesShareOneCache(t *testing.T) {
	for _, c := range []*clusterv3.Cluster{
		cluster.Passthrough(cluster.PassthroughInput{ForwardProxy: true}),
		cluster.Outbound(cluster.OutboundInput{
			Host:         "*.a.test",
			Port:         80,
			Resolution:   model.Passthrough,
			ForwardProxy: true,
		}),
	} {
		config := &dfpv3.ClusterConfig{}
		require.NoError(t, c.GetClusterType().GetTypedConfig().UnmarshalTo(config))
		require.True(t, proto.Equal(pb.ForwardProxyCache(), config.GetDnsCacheConfig()))
	}
}

func TestEqualInputsHaveEqualBytes(t *testing.T) {
	pools := model.NewPool[model.TrafficPolicy]()
	rapid.Check(t, func(rt *rapid.T) {
		in := drawOutbound(rt)
		again := in
		again.Endpoints = model.NewInterner[cluster.LookupGroup]().List(slices.Collect(in.Endpoints.All()))
		again.Policy, again.SubsetPolicy = pools.Canonical(in.Policy), pools.Canonical(in.SubsetPolicy)
		again.Backend = pools.Canonical(in.Backend)
		for range 3 {
			require.Equal(rt, encoded(rt, cluster.Outbound(in)), encoded(rt, cluster.Outbound(again)))
		}
	})
}

func encoded(t require.TestingT, c *clusterv3.Cluster) []byte {
	b, err := pb.Marshal(c)
	require.NoError(t, err)
	return b
}

// TestEnvoyTakesWhateverPolicies has Envoy load clusters for policies that people may write,
// sensible or not.
func TestEnvoyTakesWhateverPolicies(t *testing.T) {
	runnable := translatetest.Runnable(t)
	resources := &bootstrapv3.Bootstrap_StaticResources{}
	inputs := rapid.Custom(drawOutbound)
	for seed := range 300 {
		text, err := protojson.Marshal(cluster.Outbound(inputs.Example(seed)))
		require.NoError(t, err)
		c := &clusterv3.Cluster{}
		require.NoError(t, protojson.Unmarshal([]byte(runnable(string(text))), c))
		c.Name = fmt.Sprint("cluster-", seed)
		if c.GetLoadAssignment() != nil {
			c.LoadAssignment.ClusterName = c.GetName()
		}
		resources.Clusters = append(resources.Clusters, c)
	}
	translatetest.RequireValid(t, resources)
}
