package pb

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
)

// ForwardProxyCache is the DNS cache of Envoy's dynamic forward proxy. Envoy takes two users of one
// cache name only if their configurations are equal, so the HTTP filter that resolves a Host header
// and the clusters that connect to what it found both take this one. Names are looked up for IPv4,
// whatever addresses the proxy has.
func ForwardProxyCache() *dfpv3.DnsCacheConfig {
	return &dfpv3.DnsCacheConfig{Name: "passthrough", DnsLookupFamily: clusterv3.Cluster_V4_ONLY}
}
