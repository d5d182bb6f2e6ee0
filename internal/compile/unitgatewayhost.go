package compile

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// gatewayHostKind is one virtual host in a route table of a gateway's port.
type gatewayHostKind struct{}

func gatewayHostUnit(at scope.Address, table string, host model.Host) unit {
	return unit{kind: gatewayHostKind{}, port: at.Port, name: at.Bind, table: table, host: host}
}

func (gatewayHostKind) String() string { return "gateway host" }

func (gatewayHostKind) all(s *scope.Scope, add func(unit)) {
	if s.Type() == scope.Sidecar {
		return
	}
	for g := range s.Gateways() {
		eachGatewayHost(s, g, add)
	}
}

func (gatewayHostKind) mark(*impact) {}

func (gatewayHostKind) differs(*impact, *scope.Class, *scope.Class) {}

func (gatewayHostKind) touched(m *impact, from, to *scope.Scope, found causes[unit]) {
	if to.Type() == scope.Sidecar {
		return
	}
	for _, s := range []*scope.Scope{from, to} {
		for g, by := range m.gatewaysOf(s) {
			eachGatewayHost(s, g, func(u unit) { found.add(u, by) })
		}
		m.addBoundHosts(s, found)
	}
	m.addMisdirected(from, to, found)
	m.addAtOtherIngresses(from, to, found)
	m.addRenumbered(from, to, found)
}

// addBoundHosts adds the virtual hosts of touched VirtualServices.
func (m *impact) addBoundHosts(s *scope.Scope, found causes[unit]) {
	var vs *model.VirtualService
	add := func(u unit) { found.add(u, m.virtual[vs]) }
	bound := func(g *model.Gateway) { eachBoundHost(s, g, vs, add) }
	for vs = range m.virtual {
		eachGatewayOf(s, vs, bound)
	}
}

// addAtOtherIngresses adds the virtual hosts that have routes of an Ingress at the servers of
// others, if its own Gateway comes to the class or leaves it: a gateway sees the destinations of
// its own Gateways.
func (m *impact) addAtOtherIngresses(from, to *scope.Scope, found causes[unit]) {
	for _, p := range m.delta.Gateways {
		g := p.Either()
		if g.Kind != kinds.Ingress || appliesTo(from, p.Old) == appliesTo(to, p.New) {
			continue
		}
		add := func(u unit) { found.add(u, m.causeOf(g.Key())) }
		for vs := range to.VirtualServicesAt(g.Namespace + "/" + g.Name) {
			eachGatewayOf(to, vs, func(other *model.Gateway) { eachBoundHost(to, other, vs, add) })
		}
	}
}

func appliesTo(s *scope.Scope, g *model.Gateway) bool { return g != nil && s.Applies(g) }

func (gatewayHostKind) slots(b unitBuilder, s *scope.Scope, u unit, _ func(source.Problem)) []slot {
	return b.gatewayHostSlots(s, u)
}

// eachGatewayHost calls add with the virtual hosts that a class has because of a Gateway: those of
// its servers, and those of its VirtualServices.
func eachGatewayHost(s *scope.Scope, g *model.Gateway, add func(unit)) {
	for i := range g.Servers {
		sv := serverAt(g, i)
		at := s.AddressOf(sv.GatewayServer)
		table := sv.tableOn(at)
		if table == "" {
			continue
		}
		for _, h := range sv.Hosts {
			add(gatewayHostUnit(at, table, h.Host)) // a redirect needs no routes
		}
		for _, host := range misdirectedHosts(s, sv, at) {
			add(gatewayHostUnit(at, table, host))
		}
	}
	for vs := range s.VirtualServicesAt(g.Namespace + "/" + g.Name) {
		eachBoundHost(s, g, vs, add)
	}
	if g.Kind == kinds.Ingress && hasWideTLS(g) {
		for vs := range s.VirtualServicesAt(state.AnyIngress) {
			eachBoundHost(s, g, vs, add)
		}
	}
}

// hasWideTLS reports whether a server with TLS has a wildcard. Hosts of other Ingresses may stand
// below it. A plain host of a server is a unit whoever has its routes.
func hasWideTLS(g *model.Gateway) bool {
	isWide := func(h model.ScopedHost) bool { return h.Host.IsWildcard() }
	return slices.ContainsFunc(g.Servers, func(sv model.GatewayServer) bool {
		return sv.TLS != nil && slices.ContainsFunc(sv.Hosts, isWide)
	})
}

// eachBoundHost calls add with the virtual hosts that a VirtualService may have at a Gateway.
func eachBoundHost(s *scope.Scope, g *model.Gateway, vs *model.VirtualService, add func(unit)) {
	for i := range g.Servers {
		sv := serverAt(g, i)
		if !sv.Protocol.IsHTTP() || !sv.binds(vs) {
			continue
		}
		at := s.AddressOf(sv.GatewayServer)
		table := sv.tableOn(at)
		for _, host := range vs.Hosts {
			for _, h := range sv.Hosts {
				switch {
				case h.Host.Covers(host):
					add(gatewayHostUnit(at, table, host))
				case host.Covers(h.Host):
					add(gatewayHostUnit(at, table, h.Host))
				}
			}
		}
	}
}
