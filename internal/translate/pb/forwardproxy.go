package pb

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// ForwardProxyCache is the DNS cache of Envoy's dynamic forward proxy. Envoy takes two users of one
// cache name only if their configurations are equal, so the HTTP filter that resolves a Host header
// and the clusters that connect to what it found both take this one. Names are looked up for IPv4,
// whatever addresses the proxy has.
func ForwardProxyCache() *dfpv3.DnsCacheConfig {
	return &dfpv3.DnsCacheConfig{Name: "passthrough", DnsLookupFamily: clusterv3.Cluster_V4_ONLY}
}

// DynamicDNSFilter names the filter that looks the hosts of requests up in DynamicDNSCache. It is
// turned off in listeners; virtual hosts turn it on.
const DynamicDNSFilter = "lateen.filters.http.dynamic_dns"

// DynamicDNSCache is the DNS cache of services of resolution DYNAMIC_DNS, of a proxy with such
// addresses. It holds for its filters and clusters what ForwardProxyCache says.
//
// Whoever has a name decides what it resolves to, so the cache drops the addresses of ownAddresses.
// It does so with each answer, before anything connects: an answer that changes between two
// attempts, or lists an allowed address before one of these, leads to none of them.
func DynamicDNSCache(stack model.Stack) *dfpv3.DnsCacheConfig {
	return &dfpv3.DnsCacheConfig{
		Name: "dynamic_dns", DnsLookupFamily: LookupFamily(stack), ResolvedAddressFilter: ownAddresses(),
	}
}

// ownAddresses are those that lead to the caller's own machine, to its link, or to nobody: Envoy's
// administration and the ports that a workload keeps to itself are at the former, a cloud's
// metadata at link-local addresses. Addresses of IPv4 in IPv6 lead to the same.
func ownAddresses() *matcherv3.AddressMatcher {
	block := func(prefix string, bits uint32) *xdscorev3.CidrRange {
		return &xdscorev3.CidrRange{AddressPrefix: prefix, PrefixLen: wrapperspb.UInt32(bits)}
	}
	return &matcherv3.AddressMatcher{Ranges: []*xdscorev3.CidrRange{
		block("0.0.0.0", 8), // unspecified: Linux takes it for loopback
		block("127.0.0.0", 8),
		block("169.254.0.0", 16),
		block("224.0.0.0", 3),   // multicast, reserved, broadcast
		block("::", 96),         // unspecified, loopback, IPv4-compatible
		block("::ffff:0:0", 96), // IPv4-mapped
		block("fe80::", 10),
		block("ff00::", 8),
		block("fd00:ec2::254", 128), // metadata of AWS
		block("fd20:ce::254", 128),  // metadata of Google Cloud
	}}
}

// LookupFamily is what names are looked up for, as in Istio. With both families Envoy tries the
// addresses in turn.
func LookupFamily(stack model.Stack) clusterv3.Cluster_DnsLookupFamily {
	switch stack {
	case model.IPv6Stack:
		return clusterv3.Cluster_V6_ONLY
	case model.DualStack:
		return clusterv3.Cluster_ALL
	}
	return clusterv3.Cluster_V4_ONLY
}
