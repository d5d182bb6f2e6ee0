package view

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/world"
)

// impact is what a delta may touch, whoever sees it: found once per delta, at the cost of the delta.
type impact struct {
	delta *world.Delta
	hosts map[model.Host]bool
	// endpoints are hosts of which nothing but endpoints changed.
	endpoints map[model.Host]bool
	ports     map[uint16]map[model.Host]bool // of explicit TCP listeners, with the hosts that touch them
	own       bool                           // unitOwn
	virtual   map[*model.VirtualService]bool
	seen      map[*model.VirtualService]bool
}

func impactOf(d *world.Delta) *impact {
	m := &impact{
		delta: d, hosts: map[model.Host]bool{}, endpoints: map[model.Host]bool{}, ports: map[uint16]map[model.Host]bool{},
		virtual: map[*model.VirtualService]bool{}, seen: map[*model.VirtualService]bool{},
	}
	for _, p := range d.Services {
		for _, svc := range []*model.Service{p.Old, p.New} {
			if svc != nil {
				m.claims(svc.Host)
			}
		}
	}
	for _, p := range d.VirtualServices {
		for _, vs := range []*model.VirtualService{p.Old, p.New} {
			if vs != nil {
				m.routes(vs)
				for _, h := range world.DestinationHosts(vs) {
					m.claims(h) // a destination is seen because of the route
				}
			}
		}
	}
	for _, p := range d.DestinationRules {
		for _, r := range []*model.DestinationRule{p.Old, p.New} {
			if r != nil {
				m.rule(r)
			}
		}
	}
	for _, e := range d.Endpoints {
		m.endpointsOf(e)
	}
	return m
}

// both yields the worlds before and after.
func (m *impact) both() []*world.World { return []*world.World{m.delta.From, m.delta.To} }

// claims adds a host whose claimants changed, or that may come into or out of sight, with all that hangs on it.
func (m *impact) claims(host model.Host) {
	m.hosts[host] = true
	for _, w := range m.both() {
		m.portsOf(w, host)
	}
	m.routesTo(host)
}

// routesTo adds the routes that name a host as their destination: they depend on its ports and its hash policy.
func (m *impact) routesTo(host model.Host) {
	for _, w := range m.both() {
		for vs := range w.VirtualServicesTo(host) {
			m.routes(vs)
		}
	}
}

// routes adds what a VirtualService routes.
func (m *impact) routes(vs *model.VirtualService) {
	if m.seen[vs] {
		return
	}
	m.seen[vs] = true
	m.virtual[vs] = true
	for _, pattern := range vs.Hosts {
		m.hosts[pattern] = true
		for _, w := range m.both() {
			for host := range w.HostsUnder(pattern) {
				m.hosts[host] = true
				m.portsOf(w, host) // even without TCP routes of its own it may take the place of one that has them
			}
		}
	}
}

func (m *impact) portsOf(w *world.World, host model.Host) {
	for svc := range w.Claims(host) {
		for _, p := range svc.Ports {
			if explicit(p.Protocol) {
				m.addPort(p.Port, host)
			}
		}
	}
}

func (m *impact) addPort(port uint16, host model.Host) {
	if m.ports[port] == nil {
		m.ports[port] = map[model.Host]bool{}
	}
	m.ports[port][host] = true
}

func (m *impact) rule(r *model.DestinationRule) {
	for _, w := range m.both() {
		for host := range w.HostsUnder(r.Host) {
			m.claims(host)
		}
	}
}

func (m *impact) endpointsOf(e world.EndpointChange) {
	if e.From.IsEmpty() == e.To.IsEmpty() {
		m.endpoints[e.Host] = true
		return
	}
	// Without interception a service is called by its endpoints, or else by name: compiler.outbound, chainBuilder.direct.
	m.claims(e.Host)
}

// units are the parts of a class that the delta may touch.
func (m *impact) units(from, to *scope.Scope) []unit {
	units := map[unit]bool{}
	for h := range m.hosts {
		units[unit{kind: unitHost, host: h}] = true
		for _, full := range aliasOf(h, to.Class.Namespace, to.World.Mesh.Domain) {
			if !m.hosts[full] && to.World.Names(full) {
				units[unit{kind: unitHost, host: full}] = true
			}
		}
	}
	for h := range m.endpoints {
		if !m.hosts[h] {
			units[unit{kind: unitEndpoints, host: h}] = true
		}
	}
	if m.own || to.Class.Type == scope.Sidecar && m.guards(from, to) {
		units[unit{kind: unitOwn}] = true
	}
	if to.Class.Type == scope.Sidecar {
		return sortedUnits(units)
	}
	m.gatewayUnits(from, units)
	m.gatewayUnits(to, units)
	if m.guards(from, to) {
		for g := range to.Gateways() {
			for i := range g.Servers {
				units[unit{kind: unitGateway, port: resolvedPort(to.Class, g.Servers[i].Port)}] = true
			}
		}
	}
	return sortedUnits(units)
}

// guards tells whether guards of the class changed: they decide on what it lets in.
func (m *impact) guards(from, to *scope.Scope) bool {
	return slices.ContainsFunc(m.delta.Guards, func(p world.Pair[model.Guard]) bool {
		return p.Old != nil && from.Guarded(p.Old) || p.New != nil && to.Guarded(p.New)
	})
}

func (m *impact) gatewayUnits(s *scope.Scope, units map[unit]bool) {
	for _, p := range m.delta.Gateways {
		for _, g := range []*model.Gateway{p.Old, p.New} {
			if g != nil && s.Applies(g) {
				addGateway(s, g, units)
				m.gatewayHosts(s, g, units)
			}
		}
	}
	for vs := range m.virtual {
		for _, name := range vs.Gateways {
			if g := s.World.Gateway(name); g != nil && s.Applies(g) {
				addBound(s, g, vs, units)
			}
		}
	}
}

// gatewayHosts adds the destinations behind a Gateway that changed: a gateway sees what its routes lead to.
func (m *impact) gatewayHosts(s *scope.Scope, g *model.Gateway, units map[unit]bool) {
	for vs := range s.World.VirtualServicesAt(g.Namespace + "/" + g.Name) {
		for _, h := range world.DestinationHosts(vs) {
			units[unit{kind: unitHost, host: h}] = true
		}
	}
}

func compareUnits(a, b unit) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port))
}
