package cluster

import (
	"cmp"
	"slices"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// How names are looked up; Istio's values. A record's TTL takes precedence over the refresh rate.
const (
	dnsJitter = 100 * time.Millisecond
	// dnsUDPQueries is after how many queries a UDP socket is replaced: one that goes bad does not
	// stay for ever.
	dnsUDPQueries = 100
)

// dns makes a cluster that looks its endpoints up.
//
// The fields are those of Istio, which EnvoyFilters and older proxies know; Envoy 1.40 would rather
// have the same in a typed cluster extension.
func (b *builder) dns(
	kind clusterv3.Cluster_DiscoveryType, in OutboundInput, groups []*endpointv3.LocalityLbEndpoints,
) {
	c := b.cluster
	c.ClusterDiscoveryType = discovery(kind)
	c.DnsLookupFamily = lookupFamily(in.Stack)
	c.DnsRefreshRate = pb.OptionalDuration(in.DNSRefresh) //nolint:staticcheck // see above
	c.DnsJitter = pb.Duration(dnsJitter)                  //nolint:staticcheck // see above
	c.RespectDnsTtl = true                                //nolint:staticcheck // see above
	c.TypedDnsResolverConfig = &corev3.TypedExtensionConfig{
		Name:        "envoy.network.dns_resolver.cares",
		TypedConfig: pb.Any(&caresv3.CaresDnsResolverConfig{UdpMaxQueries: wrapperspb.UInt32(dnsUDPQueries)}),
	}
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: c.GetName(), Endpoints: groups}
}

// lookupFamily is what names are looked up for, as in Istio. With both families Envoy tries the
// addresses in turn.
func lookupFamily(stack model.Stack) clusterv3.Cluster_DnsLookupFamily {
	switch stack {
	case model.IPv6Stack:
		return clusterv3.Cluster_V6_ONLY
	case model.DualStack:
		return clusterv3.Cluster_ALL
	}
	return clusterv3.Cluster_V4_ONLY
}

// dnsKind is how names are looked up. Envoy refuses a logical cluster with several names; all
// addresses of all of them are what comes closest.
func dnsKind(r model.Resolution, groups []*endpointv3.LocalityLbEndpoints) clusterv3.Cluster_DiscoveryType {
	if r == model.LogicalDNS && len(groups) == 1 && len(groups[0].GetLbEndpoints()) == 1 {
		return clusterv3.Cluster_LOGICAL_DNS
	}
	return clusterv3.Cluster_STRICT_DNS
}

// hostItself is what to look up for a host without endpoints of its own.
func hostItself(host model.Host, port uint16) []*endpointv3.LocalityLbEndpoints {
	return []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: address(string(host), port)}},
	}}
}

// dnsEndpoints are the names to look up, by locality. One without an address or a port can be no
// endpoint and is left out; the conversion has reported it.
func dnsEndpoints(endpoints *model.List[model.Endpoint]) []*endpointv3.LocalityLbEndpoints {
	byLocality := map[model.Locality][]*endpointv3.LbEndpoint{}
	for e := range endpoints.All() {
		if e.Address == "" || e.Port == 0 {
			continue
		}
		byLocality[e.Locality] = append(byLocality[e.Locality], &endpointv3.LbEndpoint{
			HostIdentifier:      address(e.Address, e.Port),
			LoadBalancingWeight: pb.OptionalUint32(e.Weight),
		})
	}
	groups := make([]*endpointv3.LocalityLbEndpoints, 0, len(byLocality))
	for l, members := range byLocality {
		group := &endpointv3.LocalityLbEndpoints{LbEndpoints: members}
		if l != (model.Locality{}) {
			group.Locality = &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.Subzone}
		}
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b *endpointv3.LocalityLbEndpoints) int {
		return cmp.Or(
			cmp.Compare(a.GetLocality().GetRegion(), b.GetLocality().GetRegion()),
			cmp.Compare(a.GetLocality().GetZone(), b.GetLocality().GetZone()),
			cmp.Compare(a.GetLocality().GetSubZone(), b.GetLocality().GetSubZone()),
		)
	})
	return groups
}

func address(host string, port uint16) *endpointv3.LbEndpoint_Endpoint {
	return &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: pb.Address(host, port)}}
}
