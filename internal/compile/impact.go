package compile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// impact is what a delta may touch, whoever sees it: found once per delta, at the cost of the delta.
type impact struct {
	delta *state.Delta
	lane  *lane
	steps *stepCache // nil where the impact is of one class alone
	hosts map[model.Host]bool
	// endpoints are hosts of which nothing but endpoints changed, and that the lane leaves to the classes.
	endpoints   map[model.Host]bool
	ports       map[uint16]map[model.Host]bool // of explicit TCP listeners, with the hosts that touch them
	vips        map[unit]bool                  // unitVIP
	own         bool                           // unitOwn
	credentials []changedCredential
	virtual     map[*model.VirtualService]bool
	seen        map[*model.VirtualService]bool
	// quiet tells that no class has a unit to compile: at most, the lane has something for it.
	quiet bool
}

func impactOf(d *state.Delta, l *lane) *impact {
	m := &impact{
		delta: d, lane: l, hosts: map[model.Host]bool{}, endpoints: map[model.Host]bool{}, ports: map[uint16]map[model.Host]bool{},
		vips: map[unit]bool{}, virtual: map[*model.VirtualService]bool{}, seen: map[*model.VirtualService]bool{},
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
				for _, h := range state.DestinationHosts(vs) {
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
	for _, a := range d.Accounts {
		m.hosts[a.Host] = true // whom callers believe
	}
	for _, p := range d.Credentials {
		m.credential(p.Either())
	}
	m.quiet = m.none()
	return m
}

// both yields the worlds before and after.
func (m *impact) both() []*state.Snapshot { return []*state.Snapshot{m.delta.From, m.delta.To} }

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

func (m *impact) portsOf(w *state.Snapshot, host model.Host) {
	for svc := range w.Claims(host) {
		for _, p := range svc.Ports {
			if explicit(p.Protocol) {
				m.addPort(p.Port, host)
			}
			m.vipsOf(w, svc, p)
		}
	}
}

// vipsOf adds what else has the virtual IPs of a service at a port: the first of all has it.
func (m *impact) vipsOf(w *state.Snapshot, svc *model.Service, p model.ServicePort) {
	for _, address := range svc.VIPs() {
		if explicit(p.Protocol) {
			m.vips[vipUnit(address, p.Port)] = true
			continue
		}
		for other := range w.ServicesAt(address, p.Port) {
			m.hosts[other.Host] = true
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

func (m *impact) endpointsOf(e state.EndpointChange) {
	if e.From.IsEmpty() != e.To.IsEmpty() && m.calledByName(e.Host) {
		m.claims(e.Host)
		return
	}
	if m.lane.slow[e.Host] {
		m.endpoints[e.Host] = true
	}
}

// calledByName tells whether a host may be that of a service which is called by its endpoints, or else by name: there it matters
// whether there are any (compiler.outbound, chainBuilder.direct).
func (m *impact) calledByName(host model.Host) bool {
	for _, w := range m.both() {
		for svc := range w.Claims(host) {
			if svc.Resolution == model.Passthrough {
				return true
			}
		}
	}
	return false
}

// none tells that no class has a unit to compile, so that hundreds need not be asked. Whatever else
// is in a delta counts as something, until it is known here as what no unit reads.
func (m *impact) none() bool {
	rest := *m.delta
	rest.Workloads, rest.Nodes = nil, nil    // they move proxies from class to class
	rest.Endpoints, rest.Accounts = nil, nil // of which the hosts are found
	return rest.IsEmpty() && !m.own && len(m.hosts)+len(m.endpoints)+len(m.ports)+len(m.vips) == 0
}

// units are the parts of a class that the delta may touch.
func (m *impact) units(from, to *scope.Scope) []unit {
	units := map[unit]bool{}
	for h := range m.hosts {
		units[unit{kind: unitHost, host: h}] = true
		for _, full := range aliasOf(to, h) {
			if !m.hosts[full] && to.HasHost(full) {
				units[unit{kind: unitHost, host: full}] = true
			}
		}
	}
	for h := range m.endpoints {
		if !m.hosts[h] {
			units[unit{kind: unitEndpoints, host: h}] = true
		}
	}
	if to.Intercepts() {
		maps.Copy(units, m.vips)
	}
	m.secrets(to, units)
	if m.own || to.Type() == scope.Sidecar && m.changesPolicies(from, to) {
		units[unit{kind: unitOwn}] = true
	}
	if to.Type() == scope.Sidecar {
		return sortedUnits(units)
	}
	m.gatewayUnits(from, units)
	m.gatewayUnits(to, units)
	m.forwards(to, units)
	m.openedBy(to, units)
	if m.changesPolicies(from, to) {
		for g := range to.Gateways() {
			for i := range g.Servers {
				units[unit{kind: unitGateway, port: to.BoundPort(g.Servers[i].Port)}] = true
			}
		}
	}
	return sortedUnits(units)
}

// changesPolicies reports whether an AuthorizationPolicy or a PeerAuthentication of the class changed:
// they decide which calls it accepts.
func (m *impact) changesPolicies(from, to *scope.Scope) bool {
	return slices.ContainsFunc(m.delta.AuthorizationPolicies, func(p state.Pair[model.AuthorizationPolicy]) bool {
		return p.Old != nil && from.HasAuthorizationPolicy(p.Old) || p.New != nil && to.HasAuthorizationPolicy(p.New)
	}) || slices.ContainsFunc(m.delta.PeerAuthentications, func(p state.Pair[model.PeerAuthentication]) bool {
		return p.Old != nil && from.HasPeerAuthentication(p.Old) || p.New != nil && to.HasPeerAuthentication(p.New)
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
			if g := s.Gateway(name); g != nil && s.Applies(g) {
				addBound(s, g, vs, units)
			}
		}
	}
}

// gatewayHosts adds the destinations behind a Gateway that changed: a gateway sees what its routes lead to.
func (m *impact) gatewayHosts(s *scope.Scope, g *model.Gateway, units map[unit]bool) {
	for vs := range s.VirtualServicesAt(g.Namespace + "/" + g.Name) {
		for _, h := range state.DestinationHosts(vs) {
			units[unit{kind: unitHost, host: h}] = true
		}
	}
}

func compareUnits(a, b unit) int {
	return cmp.Or(
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port), cmp.Compare(a.table, b.table), cmp.Compare(a.name, b.name),
	)
}
