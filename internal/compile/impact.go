package compile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// impact is what a delta may touch in any class. It is found once per delta, at the cost of the
// delta.
type impact struct {
	delta    *state.Delta
	fastPath *endpointFastPath
	steps    *stepCache // nil where the impact is of one class alone
	hosts    map[model.Host]bool
	// endpoints are hosts of which only endpoints changed, and which the fast path leaves to the
	// classes.
	endpoints   map[model.Host]bool
	ports       map[uint16]map[model.Host]bool // of TCP listeners, with the hosts that touch them
	vips        map[unit]bool                  // unitVIP
	names       map[model.Host]bool            // unitName, of which only endpoints changed; nil for none
	aliases     map[model.Host]bool            // what addAliases has added; nil for nothing
	own         bool                           // unitOwn
	credentials []changedCredential
	virtual     map[*model.VirtualService]bool
	seen        map[*model.VirtualService]bool
	// observes says that calls of the class are logged or traced otherwise than before, so that all
	// its listeners are compiled again.
	observes bool
	// mayObserve says that observes may become true for a class.
	mayObserve bool
	// noUnits says that no class has a unit to compile. The fast path may still have something for
	// it.
	noUnits bool
}

func impactOf(d *state.Delta, f *endpointFastPath) *impact {
	m := &impact{
		delta:     d,
		fastPath:  f,
		hosts:     map[model.Host]bool{},
		endpoints: map[model.Host]bool{},
		ports:     map[uint16]map[model.Host]bool{},
		vips:      map[unit]bool{},
		virtual:   map[*model.VirtualService]bool{},
		seen:      map[*model.VirtualService]bool{},
	}
	for _, p := range d.Services {
		for _, svc := range []*model.Service{p.Old, p.New} {
			if svc != nil {
				m.addClaimants(svc.Host)
			}
		}
	}
	for _, p := range d.VirtualServices {
		for _, vs := range []*model.VirtualService{p.Old, p.New} {
			if vs != nil {
				m.addRoutes(vs)
			}
		}
		for _, h := range seenOtherwise(p) {
			m.addClaimants(h) // a route makes its destination visible
		}
	}
	for _, p := range d.DestinationRules {
		for _, r := range []*model.DestinationRule{p.Old, p.New} {
			if r != nil {
				m.addRule(r)
			}
		}
	}
	for _, p := range d.BackendPolicies {
		m.addClaimants(p.Either().Host)
	}
	if slices.ContainsFunc(d.Gateways, presentsOtherwise) {
		m.addBackendPolicies()
	}
	for _, e := range d.Endpoints {
		m.addEndpointChange(e)
	}
	for _, a := range d.Accounts {
		m.hosts[a.Host] = true // the identities that callers accept
	}
	for _, p := range d.Credentials {
		m.addCredential(p.Either())
	}
	m.noUnits, m.mayObserve = m.touchesNoUnit(), m.touchesReceivers()
	return m
}

// withHost adds a host to a set that stays nil where most steps have no such host.
func withHost(set map[model.Host]bool, host model.Host) map[model.Host]bool {
	if set == nil {
		set = map[model.Host]bool{}
	}
	set[host] = true
	return set
}

// seenOtherwise returns the destinations whose visibility a changed VirtualService may change. If
// hosts, gateways and exportTo stay the same, these are the destinations that were added or
// removed. All destinations would be right too, but then an edit of one route would compile all
// routes to the same service again.
func seenOtherwise(p state.Pair[model.VirtualService]) []model.Host {
	if p.Old == nil || p.New == nil {
		return state.DestinationHosts(p.Either())
	}
	old, now := state.DestinationHosts(p.Old), state.DestinationHosts(p.New)
	if !slices.Equal(p.Old.Hosts, p.New.Hosts) || !slices.Equal(p.Old.Gateways, p.New.Gateways) ||
		!model.Equal(&p.Old.ExportTo, &p.New.ExportTo) {
		return slices.Concat(old, now)
	}
	isIn := func(list []model.Host) func(model.Host) bool {
		return func(h model.Host) bool { return slices.Contains(list, h) }
	}
	gone, came := slices.DeleteFunc(slices.Clone(old), isIn(now)), slices.DeleteFunc(slices.Clone(now), isIn(old))
	return append(gone, came...)
}

// snapshots returns the snapshots before and after the delta.
func (m *impact) snapshots() [2]*state.Snapshot {
	return [...]*state.Snapshot{m.delta.From, m.delta.To}
}

// hasSameServices reports whether a snapshot is the one before the delta and has the services of
// the one after it. It need not be asked for services then.
func (m *impact) hasSameServices(snap *state.Snapshot) bool {
	return snap == m.delta.From && snap != m.delta.To && len(m.delta.Services) == 0
}

// addClaimants adds a host whose claimants changed, or which may become visible or invisible, with
// all that depends on it.
func (m *impact) addClaimants(host model.Host) {
	m.hosts[host] = true
	for _, snap := range m.snapshots() {
		m.addPortsOf(snap, host)
	}
	m.addRoutesTo(host)
	m.addAliases(host)
}

// addAliases adds the other names of a host (Services of type ExternalName): calls to them go to
// its service, by its routes.
func (m *impact) addAliases(host model.Host) {
	for _, snap := range m.snapshots() {
		if !snap.HasAliases() {
			continue
		}
		for svc := range snap.AliasesOf(host) {
			if !m.aliases[svc.Host] {
				m.aliases = withHost(m.aliases, svc.Host)
				m.addClaimants(svc.Host)
			}
		}
	}
}

// addRoutesTo adds the routes that name a host as their destination. They depend on its ports and
// its hash policy.
func (m *impact) addRoutesTo(host model.Host) {
	for _, snap := range m.snapshots() {
		for vs := range snap.VirtualServicesTo(host) {
			m.addRoutes(vs)
		}
	}
}

// addRoutes adds what a VirtualService routes.
func (m *impact) addRoutes(vs *model.VirtualService) {
	if m.seen[vs] {
		return
	}
	m.seen[vs] = true
	m.virtual[vs] = true
	if !slices.Contains(vs.Gateways, model.Mesh) {
		return // the virtual hosts of gateways are units of their own, and no service's host takes part
	}
	for _, pattern := range vs.Hosts {
		m.hosts[pattern] = true
		for _, snap := range m.snapshots() {
			for host := range snap.HostsUnder(pattern) {
				m.hosts[host] = true
				m.addAliases(host)
				// even without TCP routes of its own it may take the place of one that has them
				m.addPortsOf(snap, host)
			}
		}
	}
}

// addPortsOf adds the TCP ports of the services that claim a host, and what depends on their
// virtual IPs.
func (m *impact) addPortsOf(snap *state.Snapshot, host model.Host) {
	for svc := range snap.Claims(host) {
		for _, p := range svc.Ports {
			if needsTCPListener(p.Protocol) {
				m.addPort(p.Port, host)
			}
			m.addVIPsOf(snap, svc, p)
		}
	}
}

// addVIPsOf adds what else has the virtual IPs of a service at a port, because the first of all has
// them.
func (m *impact) addVIPsOf(snap *state.Snapshot, svc *model.Service, p model.ServicePort) {
	for _, address := range svc.VIPs() {
		if needsTCPListener(p.Protocol) {
			m.vips[vipUnit(address, p.Port)] = true
			continue
		}
		for other := range snap.ServicesAt(address, p.Port) {
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

// presentsOtherwise reports whether the certificate that proxies present to servers may be another
// one.
func presentsOtherwise(p state.Pair[model.Gateway]) bool {
	if p.Old == nil || p.New == nil || p.Old.Workloads != p.New.Workloads || p.Old.Selector != p.New.Selector ||
		p.Old.AlsoSelector != p.New.AlsoSelector {
		return p.Old != nil && p.Old.Presents != "" || p.New != nil && p.New.Presents != ""
	}
	return p.Old.Presents != p.New.Presents || p.New.Presents != "" && p.Old.Compare(&p.New.Meta) != 0
}

// addBackendPolicies adds the hosts whose owners demand TLS: who calls them may present another
// certificate, or have it no more.
func (m *impact) addBackendPolicies() {
	for _, snap := range m.snapshots() {
		for p := range snap.BackendPolicies() {
			m.addClaimants(p.Host)
		}
	}
}

// addRule adds the hosts that a DestinationRule applies to.
func (m *impact) addRule(r *model.DestinationRule) {
	for _, snap := range m.snapshots() {
		for host := range snap.HostsUnder(r.Host) {
			m.addClaimants(host)
		}
	}
}

// addEndpointChange adds a host whose endpoints changed, unless the fast path has taken the change.
func (m *impact) addEndpointChange(e state.EndpointChange) {
	if e.From.IsEmpty() != e.To.IsEmpty() && m.calledByName(e.Host) {
		m.addClaimants(e.Host)
		return
	}
	if m.fastPath.slowHosts[e.Host] {
		m.endpoints[e.Host] = true
	}
	m.addPodsPorts(e.Host)
}

// addPodsPorts adds the TLS ports of headless services, whose listeners have the addresses of pods
// (chainBuilder.addPods).
func (m *impact) addPodsPorts(host model.Host) {
	for _, snap := range m.snapshots() {
		if m.hasSameServices(snap) {
			continue
		}
		for svc := range snap.Claims(host) {
			if !svc.Headless {
				continue
			}
			for _, p := range svc.Ports {
				if p.Protocol == model.TLS {
					m.addPort(p.Port, host)
				}
			}
		}
	}
}

// calledByName reports whether a host may belong to a service that is called by its endpoints, or
// by name if it has none. There it matters whether there are any (unitBuilder.outbound,
// chainBuilder.direct).
func (m *impact) calledByName(host model.Host) bool {
	return m.anyClaimant(host, func(svc *model.Service) bool { return svc.Resolution == model.Passthrough })
}

// anyClaimant reports whether one of the services that claim a host, or claimed it, is such a one.
func (m *impact) anyClaimant(host model.Host, is func(*model.Service) bool) bool {
	for _, snap := range m.snapshots() {
		if m.hasSameServices(snap) {
			continue
		}
		for svc := range snap.Claims(host) {
			if is(svc) {
				return true
			}
		}
	}
	return false
}

// touchesNoUnit reports whether no class has a unit to compile, so that hundreds need not be asked.
// A new kind of change in the delta counts as touching some, until it is listed here as one that no
// unit reads.
func (m *impact) touchesNoUnit() bool {
	rest := *m.delta
	rest.Workloads, rest.Nodes = nil, nil    // they move proxies from class to class
	rest.Endpoints, rest.Accounts = nil, nil // their hosts are in m
	rest.GatewayAPIStatuses = nil            // they are for people
	return rest.IsEmpty() && !m.own && len(m.hosts)+len(m.endpoints)+len(m.ports)+len(m.vips) == 0
}

// units returns the units of a class that the delta may touch, sorted.
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
	m.addNameUnits(from, to, units)
	m.addSecretUnits(to, units)
	if m.own || m.policiesChanged(from, to) {
		units[unit{kind: unitOwn}] = true
	}
	if to.Type() == scope.Sidecar {
		return sortedUnits(units)
	}
	m.addGatewayUnits(from, units)
	m.addGatewayUnits(to, units)
	m.addForwardingPorts(to, units)
	m.addPortsWithCredentials(to, units)
	if m.policiesChanged(from, to) {
		for g := range to.Gateways() {
			for i := range g.Servers {
				units[unit{kind: unitGateway, port: to.BoundPort(g.Servers[i].Port)}] = true
			}
		}
	}
	return sortedUnits(units)
}

// policiesChanged reports whether a policy of the class changed: they decide which calls it
// accepts, and how these are observed.
func (m *impact) policiesChanged(from, to *scope.Scope) bool {
	return m.observes || anyOf(m.delta.AuthorizationPolicies, from.HasAuthorizationPolicy, to.HasAuthorizationPolicy) ||
		anyOf(m.delta.PeerAuthentications, from.HasPeerAuthentication, to.HasPeerAuthentication) ||
		anyOf(m.delta.RequestAuthentications, from.HasRequestAuthentication, to.HasRequestAuthentication) ||
		anyOf(m.delta.KeySets, from.UsesKeySet, to.UsesKeySet)
}

// anyOf reports whether one of the changed objects was there for a class, or is.
func anyOf[T any](changed []state.Pair[T], was, is func(*T) bool) bool {
	return slices.ContainsFunc(changed, func(p state.Pair[T]) bool {
		return p.Old != nil && was(p.Old) || p.New != nil && is(p.New)
	})
}

// addGatewayUnits adds what changed Gateways and VirtualServices touch in a gateway class.
func (m *impact) addGatewayUnits(s *scope.Scope, units map[unit]bool) {
	for _, p := range m.delta.Gateways {
		for _, g := range []*model.Gateway{p.Old, p.New} {
			if g != nil && s.Applies(g) {
				addGateway(s, g, units)
				m.addGatewayHosts(s, g, units)
			}
		}
	}
	for vs := range m.virtual {
		for g := range gatewaysOf(s, vs) {
			addBound(s, g, vs, units)
		}
	}
}

// addGatewayHosts adds the destinations behind a changed Gateway: a gateway sees what its routes
// lead to.
func (m *impact) addGatewayHosts(s *scope.Scope, g *model.Gateway, units map[unit]bool) {
	for vs := range s.VirtualServicesAt(g.Namespace + "/" + g.Name) {
		for _, h := range state.DestinationHosts(vs) {
			units[unit{kind: unitHost, host: h}] = true
		}
	}
}

func compareUnits(a, b unit) int {
	return cmp.Or(
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port),
		cmp.Compare(a.table, b.table), cmp.Compare(a.name, b.name),
	)
}
