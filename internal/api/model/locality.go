package model

import (
	"slices"
	"strings"
	"unique"
)

// LocalityLB says how the localities of caller and endpoint decide where requests go
// (localityLbSetting). It is canonical (Pool). At most one of Distribute and the other fields is
// set. If none is, calls fail over from the caller's subzone to its zone, its region, and all
// others.
type LocalityLB struct {
	// Off is "enabled: false". It also overrides settings of the Service and the mesh.
	Off        bool
	Distribute []Distribute
	Failover   []Failover
	// FailoverPriority are labels, the most important first. Endpoints that agree with the caller
	// in all of them come first, then those that agree in all but the last, and so on.
	FailoverPriority []PriorityLabel
	// ZoneAware is a zoneAwareLbSetting: calls stay in the caller's region, also without outlier
	// detection, and its proxy shares them among the zones of the region. With Off it shares none.
	ZoneAware bool
	// MinClusterSize is how many endpoints the region needs for that; 0 for Envoy's default, 6.
	MinClusterSize uint32
}

// Distribute says how the calls of one locality are distributed.
type Distribute struct {
	From LocalityPattern
	To   []LocalityShare // the more specific first
}

// LocalityShare is the part of the calls, in percent, that goes to a locality.
type LocalityShare struct {
	To      LocalityPattern
	Percent uint32
}

// Failover says where the calls of a region go when it fails.
type Failover struct{ From, To string }

// PriorityLabel is a label in which callers and endpoints agree or not. A fixed value replaces that
// of the caller.
type PriorityLabel struct {
	Key   string
	Value string
	Fixed bool
}

// LocalityPattern is "region/zone/subzone". "*" or an empty part stands for any.
type LocalityPattern Locality

// Matches reports whether a locality matches the pattern.
func (p LocalityPattern) Matches(l Locality) bool {
	return (p.Region == "*" || p.Region == l.Region) &&
		(p.Zone == "*" || p.Zone == "" || p.Zone == l.Zone) &&
		(p.Subzone == "*" || p.Subzone == "" || p.Subzone == l.Subzone)
}

// ParseLocality reads "region/zone/subzone". Later parts may be missing.
func ParseLocality(text string) Locality {
	region, rest, _ := strings.Cut(text, "/")
	zone, subzone, _ := strings.Cut(rest, "/")
	return Locality{Region: region, Zone: zone, Subzone: subzone}
}

// Label returns the value of one of the topology labels. known reports whether the key is one.
func (l Locality) Label(key string) (value string, known bool) {
	switch key {
	case RegionLabel:
		return l.Region, true
	case ZoneLabel:
		return l.Zone, true
	case SubzoneLabel:
		return l.Subzone, true
	}
	return "", false
}

// Zones are names of zones: "a,b", sorted. Endpoints of a zone share one string.
type Zones string

// ZonesOf makes Zones of a list.
func ZonesOf(list []string) Zones {
	list = slices.Sorted(slices.Values(list))
	return Zones(unique.Make(strings.Join(slices.Compact(list), ",")).Value())
}

// Has reports whether a zone is one of them.
func (z Zones) Has(zone string) bool {
	for known := range strings.SplitSeq(string(z), ",") {
		if known == zone && zone != "" {
			return true
		}
	}
	return false
}

// TrafficDistribution says which endpoints a Service prefers, unless a DestinationRule sets a
// locality policy (spec.trafficDistribution, or the annotation
// service.kubernetes.io/topology-mode).
type TrafficDistribution uint8

const (
	// DistributeAny prefers none.
	DistributeAny TrafficDistribution = iota
	// PreferZone prefers endpoints of the caller's region, zone and subzone.
	PreferZone
	// PreferNode prefers those on the caller's node, then as PreferZone.
	PreferNode
	// PreferHinted prefers those that EndpointSlices hint at for the caller's zone.
	PreferHinted
)

// Family is a family of IP addresses; the zero value is any.
type Family uint8

// The families.
const (
	AnyFamily Family = iota
	IPv4
	IPv6
)

// Has reports whether an address, which is an IP literal, is of the family.
func (f Family) Has(address string) bool {
	return f == AnyFamily || strings.HasPrefix(address, UnixPrefix) || (f == IPv6) == strings.Contains(address, ":")
}

// Other returns the other family; AnyFamily for AnyFamily.
func (f Family) Other() Family {
	switch f {
	case IPv4:
		return IPv6
	case IPv6:
		return IPv4
	}
	return AnyFamily
}

// Stack says which families of addresses a proxy has, and how it uses two.
type Stack uint8

const (
	// IPv4Stack is a proxy with IPv4 addresses. It is also the default for a proxy that names none.
	IPv4Stack Stack = iota
	// IPv6Stack is a proxy with only IPv6 addresses.
	IPv6Stack
	// BothStacks is a proxy with both that listens on IPv4 and gets one address of each endpoint.
	BothStacks
	// DualStack is a proxy that listens on both and gets all addresses of an endpoint.
	DualStack
)

// Wildcards returns the addresses on which a proxy listens to be reached at any of its addresses.
func (s Stack) Wildcards() []string { return s.each("0.0.0.0", "::") }

// GatewayWildcards returns the Wildcards of a gateway, as placeholders.
func (s Stack) GatewayWildcards() []string { return s.each(OwnAny4, OwnAny6) }

// each returns one of the values for each family that the proxy listens on.
func (s Stack) each(ipv4, ipv6 string) []string {
	switch s {
	case IPv6Stack:
		return []string{ipv6}
	case DualStack:
		return []string{ipv4, ipv6}
	}
	return []string{ipv4}
}

// FamilyFor returns the family by which a proxy calls a service: its first one, or the second if it
// has two and the proxy lacks the first.
func (s Stack) FamilyFor(svc *Service) Family {
	lacks := s == IPv4Stack && svc.Family == IPv6 || s == IPv6Stack && svc.Family == IPv4
	if svc.TwoFamilies && lacks {
		return svc.Family.Other()
	}
	return svc.Family
}
