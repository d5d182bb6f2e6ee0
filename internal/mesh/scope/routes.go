package scope

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// RouteKind is one of the lists of routes that a VirtualService has.
type RouteKind uint8

// The kinds of routes.
const (
	HTTPRoutes RouteKind = iota
	TLSRoutes
	TCPRoutes
)

// VirtualService returns the one that routes calls of the class to a port of a host: the most
// specific host wins, then the total order. One whose routes of the kind all have matches that can
// never hold for the class there counts as if it were not there, as in Istio.
func (s *Scope) VirtualService(host model.Host, port uint16, kind RouteKind) *model.VirtualService {
	found := s.routesOf(host, port, kind)
	s.asked(question{kind: whichRoutes, name: string(host), port: port, routes: kind}, answer{is: found})
	return found
}

// HasRoutesOf reports whether any VirtualService, seen by the class or not, lists exactly this
// host. Where none does, VirtualService need not be asked.
func (s *Scope) HasRoutesOf(host model.Host) bool { return s.snapshot.HasVirtualServicesOf(host) }

// routesOf is VirtualService without the record.
func (s *Scope) routesOf(host model.Host, port uint16, kind RouteKind) *model.VirtualService {
	at, owner := EntryPoint{Port: port, Gateways: meshAlone}, s.ownerOf(host)
	if s.Cache == nil {
		for v := range routesIn(s.snapshot, host) {
			if s.mayRoute(v, owner) && s.hasRoutes(v) && s.routesAt(v, at, kind) {
				return v
			}
		}
		return nil
	}
	for _, v := range s.Cache.routesIn(s.snapshot, host) {
		if s.mayRoute(v, owner) && s.hasRoutes(v) && s.routesAt(v, at, kind) {
			return v
		}
	}
	return nil
}

// ownsHosts reports whether calls of the class go by the routes of few namespaces alone
// (MeshConfig.OwnHostsOnly).
func (s *Scope) ownsHosts() bool { return s.snapshot.Mesh.OwnHostsOnly && s.class.Type == Sidecar }

// ownerOf returns the namespace of the first service that claims a host: it may say how its host is
// called. It is "" for none, and where all namespaces may.
func (s *Scope) ownerOf(host model.Host) string {
	if !s.ownsHosts() {
		return ""
	}
	return s.firstClaim(host)
}

// firstClaim returns the namespace of the first service that claims a host, "" for none.
func (s *Scope) firstClaim(host model.Host) string {
	for svc := range s.claimsTo(host) {
		return svc.Namespace
	}
	return ""
}

// mayRoute reports whether a VirtualService may say how the class calls a host of owner's.
func (s *Scope) mayRoute(v *model.VirtualService, owner string) bool {
	return !s.ownsHosts() || v.Namespace == owner || v.Namespace == s.class.Namespace ||
		v.Namespace == s.snapshot.Mesh.RootNamespace
}

// meshAlone is where calls of sidecars come in.
var meshAlone = []string{model.Mesh}

// routesAt reports whether a VirtualService has a route of a kind for the class at an entry point.
func (s *Scope) routesAt(v *model.VirtualService, at EntryPoint, kind RouteKind) bool {
	switch kind {
	case TLSRoutes:
		return slices.ContainsFunc(v.TLS, func(r *model.TLSRoute) bool { return s.anyL4(v, r.Matches, at) })
	case TCPRoutes:
		return slices.ContainsFunc(v.TCP, func(r *model.TCPRoute) bool {
			return len(r.Matches) == 0 || s.anyL4(v, r.Matches, at)
		})
	}
	return slices.ContainsFunc(v.HTTP, func(r *model.HTTPRoute) bool {
		return len(r.Matches) == 0 || slices.ContainsFunc(r.Matches, func(m *model.HTTPMatch) bool {
			return s.class.meets(v, Condition{m.Port, m.SourceLabels, m.SourceNamespace, m.Gateways}, at)
		})
	})
}

func (s *Scope) anyL4(v *model.VirtualService, matches []*model.L4Match, at EntryPoint) bool {
	return slices.ContainsFunc(matches, func(m *model.L4Match) bool {
		return s.class.meets(v, Condition{m.Port, m.SourceLabels, m.SourceNamespace, m.Gateways}, at)
	})
}

// EntryPoint is where requests and connections come in: at a port, and through "mesh" or gateways
// by their "namespace/name".
type EntryPoint struct {
	Port     uint16
	Gateways []string
}

// Condition is the part of a match that holds or fails for a class at an entry point, whatever the
// request.
type Condition struct {
	Port            uint16
	SourceLabels    model.Labels
	SourceNamespace string
	Gateways        []string
}

// holdsAt reports whether the conditions on the entry point hold.
func (m Condition) holdsAt(v *model.VirtualService, at EntryPoint) bool {
	gateways := m.Gateways
	if len(gateways) == 0 {
		gateways = v.Gateways
	}
	return (m.Port == 0 || m.Port == at.Port) &&
		slices.ContainsFunc(gateways, func(g string) bool { return slices.Contains(at.Gateways, g) })
}

// meets is Scope.Meets without the record.
func (c *Class) meets(v *model.VirtualService, m Condition, at EntryPoint) bool {
	return m.holdsAt(v, at) && c.Selected(m.SourceLabels) &&
		(m.SourceNamespace == "" || m.SourceNamespace == c.Namespace)
}

// Meets reports whether a condition of a VirtualService's match holds for the class at an entry
// point.
func (s *Scope) Meets(v *model.VirtualService, m Condition, at EntryPoint) bool {
	return m.holdsAt(v, at) && s.Selected(m.SourceLabels) &&
		(m.SourceNamespace == "" || s.IsOwn(m.SourceNamespace))
}
