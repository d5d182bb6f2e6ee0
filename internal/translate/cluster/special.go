package cluster

import (
	"cmp"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	commondfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// passthroughIdle is how long a connection to an unknown destination is kept without requests: they
// are many and rarely used again.
const passthroughIdle = 5 * time.Minute

// Inbound is the cluster of one of the workload's own ports. Limits of connections hold here as at
// the callers, so that those who call together are bounded too. The upgrade to HTTP/2 is for the
// way there.
func Inbound(in InboundInput) *clusterv3.Cluster {
	b := newBuilder(InboundName(in.Port), in.ConnectTimeout)
	b.defaults = in.Defaults
	b.statName(in.StatName)
	pool := in.Defaults.PoolOf(in.Pool).AtServer()
	b.protocol(in.Protocol, pool)
	b.keepCase(in.KeepsCase)
	b.pool(pool)
	b.cluster.Metadata = inboundMetadata(in.Services)
	if in.Intercepted && (in.Address == "" || in.Address == model.OwnPod) {
		b.fromInside(in.Stack)
	}
	if in.Intercepted && in.Address == "" {
		b.originalDestination()
		return b.build()
	}
	host := address(in.Address, in.EndpointPort)
	if path, ok := strings.CutPrefix(in.Address, "unix://"); ok {
		host.Endpoint.Address = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	b.cluster.ClusterDiscoveryType = discovery(clusterv3.Cluster_STATIC)
	b.cluster.LoadAssignment = &endpointv3.ClusterLoadAssignment{
		ClusterName: b.cluster.GetName(),
		Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: host}}}},
	}
	return b.build()
}

// Where calls to the workload's own process come from, if they go to the pod's own address: what
// intercepts the workload's calls lets these through, as Istio's rules do too.
const (
	insideAddress  = "127.0.0.6"
	insideAddress6 = "::6"
)

// fromInside binds calls to an address of the family that they go to.
func (b *builder) fromInside(stack model.Stack) {
	b.cluster.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: pb.Socket(insideAddress, 0)}
	switch stack {
	case model.IPv6Stack:
		b.cluster.UpstreamBindConfig.SourceAddress = pb.Socket(insideAddress6, 0)
	case model.DualStack:
		b.cluster.UpstreamBindConfig.ExtraSourceAddresses = []*corev3.ExtraSourceAddress{{
			Address: pb.Socket(insideAddress6, 0),
		}}
	}
}

// Passthrough is the cluster for destinations that the mesh does not know, "PassthroughCluster",
// for names that are looked up "AllowAnyDynamicDNSCluster", or for the workload's own ports
// "InboundPassthroughCluster".
func Passthrough(in PassthroughInput) *clusterv3.Cluster {
	if in.Inbound {
		b := newBuilder(InboundPassthroughName, in.ConnectTimeout)
		b.defaults = in.Defaults
		b.followClient()
		b.keepCase(in.KeepsCase)
		pool := in.Defaults.PoolOf(nil).AtServer()
		b.ping(pool)
		b.pool(pool)
		b.fromInside(in.Stack)
		b.originalDestination()
		return b.build()
	}
	name := PassthroughName
	if in.DynamicDNS {
		name = AnyNameName
	}
	b := newBuilder(name, in.ConnectTimeout)
	b.defaults = in.Defaults
	b.followClient()
	b.keepCase(in.KeepsCase)
	pool := unknownPool(in.Defaults.PoolOf(nil))
	b.ping(pool)
	b.pool(pool)
	switch {
	case in.DynamicDNS:
		b.forwardProxy(pb.DynamicDNSCache(in.Stack))
	case in.ForwardProxy:
		b.forwardProxy(pb.ForwardProxyCache())
	default:
		b.originalDestination()
	}
	return b.build()
}

// unknownPool returns a pool, which may be nil, for connections to unknown destinations.
func unknownPool(mesh *model.ConnectionPool) *model.ConnectionPool {
	var pool model.ConnectionPool
	if mesh != nil {
		pool = *mesh
	}
	if pool.TCPIdleTimeout == 0 {
		pool.IdleTimeout = cmp.Or(pool.IdleTimeout, passthroughIdle)
	}
	return &pool
}

// BlackHole is the cluster without endpoints, "BlackHoleCluster": what is sent there is refused.
func BlackHole() *clusterv3.Cluster { return newBuilder(BlackHoleName, 0).closed() }

// forwardProxy makes a cluster that connects to whatever host a request or a connection names, as
// the filter of the same DNS cache has looked it up.
func (b *builder) forwardProxy(cache *commondfpv3.DnsCacheConfig) {
	b.cluster.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	b.cluster.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: "envoy.clusters.dynamic_forward_proxy",
		TypedConfig: pb.Any(&dfpv3.ClusterConfig{
			ClusterImplementationSpecifier: &dfpv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: cache},
			// Envoy wants the certificate's name checked by its own rules wherever there is TLS;
			// here it is the rule of the DestinationRule that says how, and mostly there is no TLS
			// at all.
			AllowInsecureClusterOptions: true,
		}),
	}}
}
