package compile

import (
	"iter"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// gatewayKind is a gateway's port: its listener and the heads of its route tables.
type gatewayKind struct{}

func gatewayUnit(at scope.Address) unit {
	return unit{kind: gatewayKind{}, port: at.Port, name: at.Bind}
}

// address is where a gateway has the unit's listener, or its table's.
func (u unit) address() scope.Address { return scope.Address{Port: u.port, Bind: u.name} }

func (gatewayKind) String() string { return "gateway" }

func (gatewayKind) all(s *scope.Scope, add func(unit)) {
	if s.Type() == scope.Sidecar {
		return
	}
	for g := range s.Gateways() {
		eachPort(s, g, func(at scope.Address) { add(gatewayUnit(at)) })
	}
}

func (gatewayKind) mark(*impact) {}

func (gatewayKind) differs(*impact, *scope.Class, *scope.Class) {}

func (gatewayKind) touched(m *impact, from, to *scope.Scope, found causes[unit]) {
	if to.Type() == scope.Sidecar {
		return
	}
	for _, s := range []*scope.Scope{from, to} {
		for g, by := range m.gatewaysOf(s) {
			eachPort(s, g, func(at scope.Address) { found.add(gatewayUnit(at), by) })
		}
		m.addBoundPorts(s, found)
	}
	m.addForwardingPorts(to, found)
	m.addPortsWithCredentials(to, found)
	if by, changed := m.policiesChanged(from, to); changed {
		for g := range to.Gateways() {
			eachPort(to, g, func(at scope.Address) { found.add(gatewayUnit(at), by) })
		}
	}
}

// addBoundPorts adds the ports whose listeners route connections by touched VirtualServices.
func (m *impact) addBoundPorts(s *scope.Scope, found causes[unit]) {
	var vs *model.VirtualService
	add := func(g *model.Gateway) {
		for i := range g.Servers {
			sv := serverAt(g, i)
			if !sv.Protocol.IsHTTP() && sv.binds(vs) {
				found.add(gatewayUnit(s.AddressOf(sv.GatewayServer)), m.virtual[vs])
			}
		}
	}
	for vs = range m.virtual {
		eachGatewayOf(s, vs, add)
	}
}

func (gatewayKind) slots(b unitBuilder, s *scope.Scope, u unit, report func(source.Problem)) []slot {
	return b.gatewaySlots(s, u.address(), report)
}

// gatewaysOf yields the changed Gateways that a class has, each as it was and as it is.
func (m *impact) gatewaysOf(s *scope.Scope) iter.Seq2[*model.Gateway, cause] {
	return func(yield func(*model.Gateway, cause) bool) {
		for _, p := range m.delta.Gateways {
			for _, g := range []*model.Gateway{p.Old, p.New} {
				if g != nil && s.Applies(g) && !yield(g, m.causeOf(g.Key())) {
					return
				}
			}
		}
	}
}

// eachPort calls f with the ports that a gateway class has because of a Gateway.
func eachPort(s *scope.Scope, g *model.Gateway, f func(scope.Address)) {
	for i := range g.Servers {
		f(s.AddressOf(&g.Servers[i]))
	}
}

// addForwardingPorts adds the ports that forward connections to hosts which the delta touches.
func (m *impact) addForwardingPorts(s *scope.Scope, found causes[unit]) {
	for sv := range s.ForwardingServers() {
		if by, touched := m.touches(sv.Hosts); touched {
			found.add(gatewayUnit(s.AddressOf(sv)), by)
		}
	}
}

// touches reports whether the delta touches one of the hosts.
func (m *impact) touches(hosts []model.ScopedHost) (by cause, touched bool) {
	for host, by := range m.hosts {
		for _, h := range hosts {
			if h.Host.Covers(host) {
				return by, true
			}
		}
	}
	return noObject, false
}

// addPortsWithCredentials adds the ports that open or close because of a changed credential.
func (m *impact) addPortsWithCredentials(s *scope.Scope, found causes[unit]) {
	for _, c := range m.credentials {
		for g := range s.GatewaysWith(c.nameFor(s)) {
			if s.Applies(g) {
				eachPort(s, g, func(at scope.Address) { found.add(gatewayUnit(at), c.by) })
			}
		}
	}
}
