package cluster

import (
	"cmp"
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// pool limits what is open at once. Istio has no limits by default, where Envoy has low ones (1024;
// 3 parallel retries), so all four are always written down.
func (b *builder) pool(p *model.ConnectionPool) {
	if p == nil {
		p = &model.ConnectionPool{}
	}
	b.cluster.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     limit(p.MaxConnections),
		MaxPendingRequests: limit(p.HTTP1MaxPending),
		MaxRequests:        limit(p.HTTP2MaxRequests),
		MaxRetries:         limit(p.MaxRetries),
	}}}
	if p.ConnectTimeout > 0 {
		b.cluster.ConnectTimeout = pb.Duration(p.ConnectTimeout)
	}
	if k := b.defaults.KeepaliveOf(p); k != nil {
		b.cluster.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: keepalive(k)}
	}
	// The HTTP idle timeout is the more specific one; either holds for all of the cluster's
	// connections.
	if idle := cmp.Or(p.IdleTimeout, p.TCPIdleTimeout); idle != 0 {
		b.common().IdleTimeout = pb.Duration(max(idle, 0)) // Envoy takes 0 for never
	}
	if p.MaxConnectionDuration > 0 {
		b.common().MaxConnectionDuration = pb.Duration(p.MaxConnectionDuration)
	}
	if p.MaxRequestsPerConn > 0 {
		b.common().MaxRequestsPerConnection = wrapperspb.UInt32(p.MaxRequestsPerConn)
	}
}

// retryBudget limits retries by the requests that there are, in place of the limit of the pool.
func (b *builder) retryBudget(in *model.RetryBudget) {
	if in == nil {
		return
	}
	budget := &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
		MinRetryConcurrency: pb.OptionalUint32(in.MinConcurrency),
	}
	if in.PerMillion != nil {
		budget.BudgetPercent = &typev3.Percent{Value: float64(*in.PerMillion) / 10_000}
	}
	if in.Interval > 0 {
		budget.BudgetInterval = pb.Duration(in.Interval)
	}
	b.cluster.GetCircuitBreakers().GetThresholds()[0].RetryBudget = budget
}

func limit(n uint32) *wrapperspb.UInt32Value {
	if n == 0 {
		n = math.MaxUint32
	}
	return wrapperspb.UInt32(n)
}

func keepalive(k *model.Keepalive) *corev3.TcpKeepalive {
	return &corev3.TcpKeepalive{
		KeepaliveProbes:   pb.OptionalUint32(k.Probes),
		KeepaliveTime:     pb.OptionalUint32(wholeSeconds(k.Time)),
		KeepaliveInterval: pb.OptionalUint32(wholeSeconds(k.Interval)),
	}
}

// wholeSeconds is what the socket options count in. A positive duration is at least one: 0 would
// mean the system's default of hours.
func wholeSeconds(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32(min(max(d/time.Second, 1), math.MaxInt32))
}
