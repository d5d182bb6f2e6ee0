package cluster

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/structpb"
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
	c.DnsLookupFamily = pb.LookupFamily(in.Stack)
	c.DnsRefreshRate = pb.OptionalDuration(in.DNSRefresh) //nolint:staticcheck // see above
	c.DnsJitter = pb.Duration(dnsJitter)                  //nolint:staticcheck // see above
	c.RespectDnsTtl = true                                //nolint:staticcheck // see above
	c.TypedDnsResolverConfig = &corev3.TypedExtensionConfig{
		Name:        "envoy.network.dns_resolver.cares",
		TypedConfig: pb.Any(&caresv3.CaresDnsResolverConfig{UdpMaxQueries: wrapperspb.UInt32(dnsUDPQueries)}),
	}
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: c.GetName(), Endpoints: groups}
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

// lookupGroups are the endpoints to look up. One without an address or a port can be no endpoint
// and is left out; the conversion has reported it.
func lookupGroups(list *model.List[LookupGroup]) []*endpointv3.LocalityLbEndpoints {
	var groups []*endpointv3.LocalityLbEndpoints
	for g := range list.All() {
		group := &endpointv3.LocalityLbEndpoints{
			Priority: min(g.Priority, maxPriority), LoadBalancingWeight: pb.OptionalUint32(g.Weight),
		}
		if l := g.Locality; l != (model.Locality{}) {
			group.Locality = &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.Subzone}
		}
		for e := range g.Members.All() {
			if e.Address != "" && e.Port != 0 {
				group.LbEndpoints = append(group.LbEndpoints, lookup(e))
			}
		}
		if len(group.LbEndpoints) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// maxPriority is Envoy's highest priority number.
const maxPriority = 128

func lookup(in Lookup) *endpointv3.LbEndpoint {
	e := &endpointv3.LbEndpoint{
		HostIdentifier:      address(in.Address, in.Port),
		LoadBalancingWeight: pb.OptionalUint32(in.Weight),
	}
	switch in.Health {
	case model.Draining, model.Ending:
		e.HealthStatus = corev3.HealthStatus_DRAINING
	case model.Unhealthy:
		e.HealthStatus = corev3.HealthStatus_UNHEALTHY
	}
	fields := map[string]*structpb.Struct{}
	if in.Workload != "" {
		fields["istio"] = pb.Text("workload", in.Workload)
	}
	if in.TLS {
		fields["envoy.transport_socket_match"] = pb.TakesMeshTLS()
	}
	if len(fields) > 0 {
		e.Metadata = &corev3.Metadata{FilterMetadata: fields}
	}
	return e
}

func address(host string, port uint16) *endpointv3.LbEndpoint_Endpoint {
	return &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: pb.Address(host, port)}}
}
