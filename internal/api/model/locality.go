package model

import (
	"slices"
	"strings"
	"unique"
)

// LocalityLB says how the place of a caller and that of an endpoint decide on where requests go (localityLbSetting). It is
// canonical (Pool). At most one of Distribute and the rest is set; without either, calls fail over from the caller's subzone to
// its zone, its region, and all others.
type LocalityLB struct {
	// Off is "enabled: false": what others say of locality does not hold either.
	Off        bool
	Distribute []Distribute
	Failover   []Failover
	// FailoverPriority are labels, the most important first: of the endpoints, those that agree with the caller in all of them
	// come first, then those that agree in all but the last, and so on.
	FailoverPriority []PriorityLabel
}

// Distribute is how the calls of one place are shared out.
type Distribute struct {
	From LocalityPattern
	To   []LocalityShare // the more specific first
}

// LocalityShare is what part of the calls, in percent, goes to a place.
type LocalityShare struct {
	To      LocalityPattern
	Percent uint32
}

// Failover is where the calls of a region go when it fails.
type Failover struct{ From, To string }

// PriorityLabel is a label that callers and endpoints agree in or not; a fixed value stands for that of all callers.
type PriorityLabel struct {
	Key   string
	Value string
	Fixed bool
}

// LocalityPattern is "region/zone/subzone": "*", or nothing, stands for any, and all below may be left out.
type LocalityPattern Locality

// Matches tells whether a place is one of the pattern's.
func (p LocalityPattern) Matches(l Locality) bool {
	return (p.Region == "*" || p.Region == l.Region) &&
		(p.Zone == "*" || p.Zone == "" || p.Zone == l.Zone) &&
		(p.Subzone == "*" || p.Subzone == "" || p.Subzone == l.Subzone)
}

// ParseLocality reads "region/zone/subzone", of which the later ones may be missing.
func ParseLocality(text string) Locality {
	region, rest, _ := strings.Cut(text, "/")
	zone, subzone, _ := strings.Cut(rest, "/")
	return Locality{Region: region, Zone: zone, Subzone: subzone}
}

// Label is the value of one of the labels that name a place; known tells whether the key is one of them.
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

// Zones are names of zones: "a,b", sorted. Endpoints of a zone share it.
type Zones string

// ZonesOf makes Zones of a list.
func ZonesOf(list []string) Zones {
	list = slices.Sorted(slices.Values(list))
	return Zones(unique.Make(strings.Join(slices.Compact(list), ",")).Value())
}

// Has tells whether a zone is among them.
func (z Zones) Has(zone string) bool {
	for known := range strings.SplitSeq(string(z), ",") {
		if known == zone && zone != "" {
			return true
		}
	}
	return false
}

// TrafficDistribution is what a Service prefers among its endpoints, if no DestinationRule says otherwise
// (spec.trafficDistribution, or the annotation service.kubernetes.io/topology-mode).
type TrafficDistribution uint8

const (
	// DistributeAny prefers none.
	DistributeAny TrafficDistribution = iota
	// PreferZone prefers those that are close: of the caller's region, zone and subzone.
	PreferZone
	// PreferNode prefers those on the caller's node, then those that are close.
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

// Has tells whether an address, which is an IP literal, is of the family.
func (f Family) Has(address string) bool {
	return f == AnyFamily || (f == IPv6) == strings.Contains(address, ":")
}

// Other is the family that this one is not; any for any.
func (f Family) Other() Family {
	switch f {
	case IPv4:
		return IPv6
	case IPv6:
		return IPv4
	}
	return AnyFamily
}

// Stack is which families of addresses a proxy has, and what is made of two.
type Stack uint8

const (
	// IPv4Stack is a proxy with IPv4 addresses, and what one is taken for that names none.
	IPv4Stack Stack = iota
	// IPv6Stack is a proxy with IPv6 addresses alone.
	IPv6Stack
	// BothStacks is a proxy with both, that listens on IPv4, and is told one address of each endpoint.
	BothStacks
	// DualStack is one that listens on both, and is told all addresses of an endpoint.
	DualStack
)

// Wildcards are what a proxy listens on to be reached at any of its addresses.
func (s Stack) Wildcards() []string { return s.each("0.0.0.0", "::") }

// Gates are what a gateway listens on: the Wildcards, as placeholders.
func (s Stack) Gates() []string { return s.each(OwnAny4, OwnAny6) }

// each is one of these for each family that the proxy listens on.
func (s Stack) each(ipv4, ipv6 string) []string {
	switch s {
	case IPv6Stack:
		return []string{ipv6}
	case DualStack:
		return []string{ipv4, ipv6}
	}
	return []string{ipv4}
}

// Calls is by which of a service's families a proxy calls it: the first, unless it has no such address, and the service a second one.
func (s Stack) Calls(svc *Service) Family {
	lacks := s == IPv4Stack && svc.Family == IPv6 || s == IPv6Stack && svc.Family == IPv4
	if svc.TwoFamilies && lacks {
		return svc.Family.Other()
	}
	return svc.Family
}
