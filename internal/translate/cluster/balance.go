package cluster

import (
	"math/big"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Limits that Envoy sets to the sizes of hash tables; a larger one would have the cluster refused.
const (
	maxRing   = 8 << 20
	maxMaglev = 5000011
)

// balance says how one endpoint is picked.
func (b *builder) balance(lb *model.LoadBalancer) {
	if lb == nil {
		lb = &model.LoadBalancer{}
	}
	c := b.cluster
	switch lb.Kind {
	case model.RoundRobin:
		c.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
		if warmup := slowStart(lb); warmup != nil {
			c.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{
				RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: warmup},
			}
		}
	case model.Random:
		c.LbPolicy = clusterv3.Cluster_RANDOM
	case model.RingHash:
		c.LbPolicy = clusterv3.Cluster_RING_HASH
		b.ringSize(lb.MinimumRingSize)
	case model.Maglev:
		c.LbPolicy = clusterv3.Cluster_MAGLEV
		if size := min(lb.MaglevTableSize, maxMaglev); isPrime(size) {
			c.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{
				MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{TableSize: wrapperspb.UInt64(size)},
			}
		}
	default:
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		if warmup := slowStart(lb); warmup != nil {
			c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{
				LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: warmup},
			}
		}
	}
}

func (b *builder) ringSize(size uint64) {
	if size == 0 {
		return
	}
	config := &clusterv3.Cluster_RingHashLbConfig{MinimumRingSize: wrapperspb.UInt64(min(size, maxRing))}
	b.cluster.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: config}
}

// isPrime checks Maglev's table size: Envoy refuses others. The conversion has reported them;
// Envoy's default is in force then.
func isPrime(n uint64) bool { return new(big.Int).SetUint64(n).ProbablyPrime(0) }

// slowStart lets the share of a new endpoint grow, by default linearly and from a tenth: these are
// Istio's defaults and Envoy's.
func slowStart(lb *model.LoadBalancer) *clusterv3.Cluster_SlowStartConfig {
	w := lb.Warmup
	if w == nil {
		return nil
	}
	out := &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: pb.Duration(w.Duration)}
	if w.MinimumPerMillion != nil {
		out.MinWeightPercent = &typev3.Percent{Value: float64(min(*w.MinimumPerMillion, 1_000_000)) / 10_000}
	}
	if w.Aggression > 0 {
		out.Aggression = &corev3.RuntimeDouble{
			DefaultValue: float64(w.Aggression) / 1000, RuntimeKey: aggressionKey,
		}
	}
	return out
}

// aggressionKey has to be named, so that Envoy takes the message; no runtime of ours sets it.
const aggressionKey = "lateen.warmup.aggression"
