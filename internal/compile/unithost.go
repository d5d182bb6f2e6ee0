package compile

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// hostKind is what it takes to call one host: clusters, their endpoints, virtual hosts.
type hostKind struct{}

func hostUnit(host model.Host) unit { return unit{kind: hostKind{}, host: host} }

func (hostKind) String() string { return "host" }

func (hostKind) all(s *scope.Scope, add func(unit)) {
	for h := range s.Hosts() {
		add(hostUnit(h))
	}
	if s.Type() == scope.Sidecar {
		return
	}
	for g := range s.Gateways() {
		eachForwarded(s, g, func(h model.Host) { add(hostUnit(h)) })
	}
}

func (hostKind) mark(m *impact) {
	m.markServices()
	m.markRoutes()
	m.markFilters()
	for _, p := range m.delta.DestinationRules {
		m.because(p.Either().Key())
		for _, r := range []*model.DestinationRule{p.Old, p.New} {
			if r != nil {
				m.addRule(r)
			}
		}
	}
	for _, p := range m.delta.BackendPolicies {
		m.because(p.Either().Key())
		m.addClaimants(p.Either().Host)
	}
	if i := slices.IndexFunc(m.delta.Gateways, presentsOtherwise); i >= 0 {
		m.because(m.delta.Gateways[i].Either().Key())
		m.addBackendPolicies()
	}
	for _, e := range m.delta.Endpoints {
		m.addEndpointChange(e)
	}
	for _, a := range m.delta.Accounts {
		m.hosts.add(a.Host, m.because(serviceKey(a.Host, a.Namespace, a.Entry))) // the identities that callers accept
	}
}

// markServices marks the hosts of changed services.
func (m *impact) markServices() {
	for _, p := range m.delta.Services {
		m.because(p.Either().Key())
		for _, svc := range []*model.Service{p.Old, p.New} {
			if svc != nil {
				m.addClaimants(svc.Host)
			}
			if svc != nil && svc.AliasOf != "" {
				m.addDestination(svc.AliasOf) // routes to this name may make it visible
			}
		}
	}
}

// markRoutes marks what changed VirtualServices route, and their destinations.
func (m *impact) markRoutes() {
	for _, p := range m.delta.VirtualServices {
		m.because(p.Either().Key())
		for _, vs := range []*model.VirtualService{p.Old, p.New} {
			if vs != nil {
				m.addRoutes(vs)
			}
		}
		for _, h := range seenOtherwise(p) {
			m.addDestination(h)
		}
	}
}

// differs adds what is visible to one of two classes alone, or called by other names.
func (hostKind) differs(m *impact, a, b *scope.Class) {
	if a.Namespace == b.Namespace && a.Selectors == b.Selectors {
		return
	}
	differs := func(e model.Exports, owner string) bool {
		return e.Visible(owner, a.Namespace) != e.Visible(owner, b.Namespace)
	}
	for _, n := range slices.Compact([]string{a.Namespace, b.Namespace}) {
		if a.Namespace != b.Namespace {
			m.addShortNames(n)
			m.addContested(n)
			m.addOwnRoutes(n)
		}
		m.addExported(n, differs)
		for r := range m.delta.To.DestinationRulesIn(n) {
			m.addRule(r)
		}
	}
	for vs := range m.delta.To.VirtualServicesBySource() {
		m.addRoutesAndDestinations(vs)
	}
}

func (hostKind) touched(m *impact, from, to *scope.Scope, found causes[unit]) {
	m.eachHost(from, to, func(h model.Host, by cause) { found.add(hostUnit(h), by) })
}

// eachHost calls add with the hosts that the impact may touch in a class: those that are marked,
// and what depends on them or on a Gateway as the class sees it.
func (m *impact) eachHost(from, to *scope.Scope, add func(model.Host, cause)) {
	for h, by := range m.hosts {
		add(h, by)
		for _, full := range aliasOf(to, h) {
			if !m.hosts.has(full) && to.HasHost(full) {
				add(full, by)
			}
		}
	}
	for _, s := range []*scope.Scope{from, to} {
		if to.NamesHosts() {
			m.addSharedAddresses(s, add)
		}
		if to.Type() == scope.Sidecar {
			continue
		}
		for g, by := range m.gatewaysOf(s) {
			eachForwarded(s, g, func(h model.Host) { add(h, by) })
			m.addDestinationsBehind(s, g, func(h model.Host) { add(h, by) })
		}
	}
}

// addSharedAddresses adds what else may have an address of a touched service: a service may say
// that it has one of the mesh's range.
func (m *impact) addSharedAddresses(s *scope.Scope, add func(model.Host, cause)) {
	for h, by := range m.hosts {
		svc := s.Service(h)
		if svc == nil {
			continue
		}
		for _, p := range svc.Ports {
			for _, address := range s.VIPs(svc) {
				for other := range s.ServicesAt(address, p.Port) {
					add(other.Host, by)
				}
			}
		}
	}
}

// addDestinationsBehind adds the destinations behind a changed Gateway: a gateway sees what its
// routes lead to.
func (m *impact) addDestinationsBehind(s *scope.Scope, g *model.Gateway, add func(model.Host)) {
	for vs := range s.VirtualServicesAt(g.Namespace + "/" + g.Name) {
		for _, h := range state.DestinationHosts(vs) {
			for _, snap := range m.snapshots() {
				for host := range snap.HostsBehind(h) {
					add(host)
				}
			}
		}
	}
}

func (hostKind) slots(b unitBuilder, s *scope.Scope, u unit, report func(source.Problem)) []slot {
	b.reportClosed(s, u.host, report)
	reportMisfits(s, u.host, report)
	return slices.Concat(
		b.clusterSlots(s, u.host, false), b.forwardSlots(s, u.host, false), b.vhostSlots(s, u.host),
	)
}
