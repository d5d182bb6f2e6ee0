package cluster

import (
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// httpOptionsKey is where a cluster's HttpProtocolOptions are.
const httpOptionsKey = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// builder is one cluster in the making: the message, and its HTTP options, which several policies
// contribute to and which are packed last.
type builder struct {
	cluster *clusterv3.Cluster
	options *httpv3.HttpProtocolOptions
	speaks  model.Protocol   // what the port says
	limits  *model.TLSParams // on TLS to the endpoints; nil for Envoy's
	// exchange is OutboundInput's.
	exchange bool
	// defaults are those of the mesh; nil for none.
	defaults *model.ClusterDefaults
}

func newBuilder(name string, connectTimeout time.Duration) *builder {
	return &builder{cluster: &clusterv3.Cluster{
		Name:           name,
		AltStatName:    statName(name),
		ConnectTimeout: pb.OptionalDuration(max(connectTimeout, 0)),
	}}
}

// statName names the cluster in statistics otherwise than by its name; empty does not.
func (b *builder) statName(name string) {
	if name != "" {
		b.cluster.AltStatName = statName(name)
	}
}

// build packs what was gathered.
func (b *builder) build() *clusterv3.Cluster {
	if b.options == nil {
		return b.cluster
	}
	if b.options.UpstreamProtocolOptions == nil {
		// Envoy requires a choice; HTTP/1.1 is what the absence of options means.
		b.options.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
					HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
				},
			},
		}
	}
	b.cluster.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: pb.Any(b.options)}
	return b.cluster
}

// closed is the cluster without endpoints: requests get 503, connections are closed.
func (b *builder) closed() *clusterv3.Cluster {
	c := b.cluster
	return &clusterv3.Cluster{
		Name:                 c.GetName(),
		AltStatName:          c.GetAltStatName(),
		ConnectTimeout:       c.GetConnectTimeout(),
		Metadata:             c.GetMetadata(),
		ClusterDiscoveryType: discovery(clusterv3.Cluster_STATIC),
	}
}

// http are the HTTP options, made on first use.
func (b *builder) http() *httpv3.HttpProtocolOptions {
	if b.options == nil {
		b.options = &httpv3.HttpProtocolOptions{}
	}
	return b.options
}

// common are the options of any HTTP version, made on first use.
func (b *builder) common() *corev3.HttpProtocolOptions {
	o := b.http()
	if o.CommonHttpProtocolOptions == nil {
		o.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{}
	}
	return o.CommonHttpProtocolOptions
}

// protocol picks the HTTP version toward the endpoints: HTTP/1.1 unless the port or the policy says
// otherwise.
func (b *builder) protocol(p model.Protocol, policy *model.ConnectionPool) {
	var pool model.ConnectionPool
	if policy != nil {
		pool = *policy
	}
	b.speaks = p
	switch {
	case pool.UseClientProtocol:
		b.followClient()
	case pool.UpgradeHTTP2 || p.IsHTTP2():
		b.http2(pool.MaxConcurrentStreams)
	case p == model.Auto:
		b.followClient()
	}
	b.ping(&pool)
}

// ping asks connections of HTTP/2 for signs of life.
func (b *builder) ping(pool *model.ConnectionPool) {
	if pool == nil || pool.PingInterval == 0 {
		return
	}
	for _, h2 := range []*corev3.Http2ProtocolOptions{
		b.options.GetExplicitHttpConfig().GetHttp2ProtocolOptions(),
		b.options.GetUseDownstreamProtocolConfig().GetHttp2ProtocolOptions(),
	} {
		if h2 != nil {
			h2.ConnectionKeepalive = &corev3.KeepaliveSettings{
				Interval: pb.Duration(pool.PingInterval), Timeout: pb.Duration(pool.PingTimeout),
			}
		}
	}
}

func (b *builder) http2(maxStreams uint32) {
	h2 := &corev3.Http2ProtocolOptions{MaxConcurrentStreams: pb.OptionalUint32(min(maxStreams, math.MaxInt32))}
	b.http().UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
				Http2ProtocolOptions: h2,
			},
		},
	}
}

// keepCase has the names of headers in HTTP/1 written as they came, where they are not always in
// lower case.
func (b *builder) keepCase(kept bool) {
	if !kept {
		return
	}
	if of := b.options.GetUseDownstreamProtocolConfig().GetHttpProtocolOptions(); of != nil {
		of.HeaderKeyFormat = pb.KeptCase()
	} else if b.speaks == model.HTTP && !b.isHTTP2() {
		b.http().UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
					HttpProtocolOptions: &corev3.Http1ProtocolOptions{HeaderKeyFormat: pb.KeptCase()},
				},
			},
		}
	}
}

func (b *builder) followClient() {
	b.http().UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
		UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
			HttpProtocolOptions:  &corev3.Http1ProtocolOptions{},
			Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
		},
	}
}

// isHTTP2 tells that endpoints are spoken to in HTTP/2, whatever the client speaks.
func (b *builder) isHTTP2() bool {
	return b.options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil
}
