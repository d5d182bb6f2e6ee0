package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Outbound is the cluster of one service port, or of one subset of it.
//
// A removed endpoint needs no setting: Envoy drains its pooled connections by itself (idle ones are
// closed, requests under way finish), and an endpoint with health status DRAINING gets no new
// requests. close_connections_on_host_health_failure would cut TCP connections that still work, and
// ignore_health_on_host_removal is about active health checks.
func Outbound(in OutboundInput) *clusterv3.Cluster {
	policy := in.Defaults.Under(Effective(in.Policy, in.SubsetPolicy, in.Backend, in.Port))
	if in.Presents != "" {
		policy.TLS = presenting(policy.TLS, in.Presents)
	}
	if in.Forwarded {
		policy.TLS = nil
	}
	b := newBuilder(in.Name(), in.ConnectTimeout)
	b.limits, b.exchange, b.defaults = in.TLS, in.Exchange, in.Defaults
	b.statName(in.StatName)
	b.cluster.Metadata = metadata(in)
	b.cluster.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{}
	if !usable(policy.TLS, in.Secured) || policy.Announces == model.UnknownProxyProtocol && !in.Forwarded {
		return b.closed()
	}
	b.protocol(in.spoken(), upgraded(policy.Pool, in.UpgradeHTTP2))
	b.keepCase(in.KeepsCase)
	b.pool(policy.Pool)
	b.retryBudget(policy.Budget)
	b.outlier(policy.Outlier)
	if !b.discover(in, policy.LB) {
		return b.closed()
	}
	b.tls(demanding(policy.TLS, in.Names), ServerName(in.Port, in.Subset, in.Host))
	if in.AutoTLS && policy.TLS == nil {
		b.autoTLS(in.Names, ServerName(in.Port, in.Subset, in.Host), in.ConnectsAsCalled(policy.LB))
	}
	if !in.Forwarded { // whose bytes are those of another proxy, with its TLS
		b.announce(policy.Announces)
	}
	return b.build()
}

// upgraded returns a pool with the mesh's upgrade to HTTP/2, unless it says otherwise itself.
func upgraded(pool *model.ConnectionPool, mesh bool) *model.ConnectionPool {
	var own model.ConnectionPool
	if pool != nil {
		own = *pool
	}
	if !mesh || own.KeepHTTP1 || own.UseClientProtocol {
		return pool
	}
	own.UpgradeHTTP2 = true
	return &own
}

// spoken is the port's protocol as this proxy can tell it. A port that does not say is spoken to as
// the client speaks; but a gateway's clients negotiate with the gateway, which tells nothing about
// the workload.
func (in *OutboundInput) spoken() model.Protocol {
	if in.Protocol == model.Auto && in.Gateway {
		return model.HTTP
	}
	return in.Protocol
}

// ConnectsAsCalled reports whether the cluster connects to the address that the caller picked,
// under the load balancing in force.
func (in *OutboundInput) ConnectsAsCalled(lb *model.LoadBalancer) bool {
	switch in.Resolution {
	case model.Passthrough:
		return !in.ForwardProxy
	case model.DynamicDNS: // the name decides
		return false
	}
	return lb != nil && lb.Kind == model.PassthroughLB
}

// discover says where the endpoints come from and how one of them is picked. It reports false if
// there can be none.
func (b *builder) discover(in OutboundInput, lb *model.LoadBalancer) bool {
	switch {
	case in.Resolution == model.DynamicDNS:
		b.forwardProxy(pb.DynamicDNSCache(in.Stack))
		return true
	case in.Resolution == model.Passthrough && in.ForwardProxy && in.Host.IsWildcard():
		b.forwardProxy(pb.ForwardProxyCache())
		return true
	case in.Resolution == model.Passthrough && in.ForwardProxy:
		b.dns(clusterv3.Cluster_LOGICAL_DNS, in, hostItself(in.Host, in.Port))
	case in.ConnectsAsCalled(lb):
		b.originalDestination()
		return true
	case in.Resolution.IsByDNS():
		groups := lookupGroups(in.Endpoints)
		if len(groups) == 0 {
			return false
		}
		b.dns(dnsKind(in.Resolution, groups), in, groups)
		b.weigh(in.LocalityWeights)
		b.zones(in.Zones)
	default:
		b.eds()
		b.weigh(in.LocalityWeights)
		b.zones(in.Zones)
		b.sessions(in.Sessions)
	}
	b.balance(lb)
	return true
}

// eds subscribes to the endpoints over the same stream. The name to ask for is the cluster's, which
// is what an absent service_name means. The fetch has no timeout: a cluster that warms again keeps
// its old endpoints until the new ones are there, where a timeout would take it live with none.
func (b *builder) eds() {
	b.cluster.ClusterDiscoveryType = discovery(clusterv3.Cluster_EDS)
	b.cluster.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: pb.OverADSWithoutTimeout()}
}

// weigh shares calls out by the weights of localities, where these have some; without, all
// endpoints of a priority are alike.
func (b *builder) weigh(localities bool) {
	if localities {
		b.cluster.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}
	}
}

// zones says how calls are shared among the zones of a region.
func (b *builder) zones(in Zones) {
	if !in.Set {
		return
	}
	config := &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig{}
	if in.Off {
		config.RoutingEnabled = &typev3.Percent{}
	}
	if in.Least > 0 {
		config.MinClusterSize = wrapperspb.UInt64(uint64(in.Least))
	}
	b.cluster.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{
		ZoneAwareLbConfig: config,
	}
}

// sessions lets requests that name an endpoint reach one that drains, which get no others.
func (b *builder) sessions(has bool) {
	if has {
		b.cluster.CommonLbConfig.OverrideHostStatus = &corev3.HealthStatusSet{Statuses: []corev3.HealthStatus{
			corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_HEALTHY, corev3.HealthStatus_DEGRADED,
			corev3.HealthStatus_DRAINING,
		}}
	}
}

// originalDestination connects to the address that the caller meant.
func (b *builder) originalDestination() {
	b.cluster.ClusterDiscoveryType = discovery(clusterv3.Cluster_ORIGINAL_DST)
	b.cluster.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
}

func discovery(t clusterv3.Cluster_DiscoveryType) *clusterv3.Cluster_Type {
	return &clusterv3.Cluster_Type{Type: t}
}
