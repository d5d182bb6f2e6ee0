package compile

import (
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// impact is what a delta may touch in any class. It is found once per delta, at the cost of the
// delta: each kind of unit marks what its units read. What is marked goes with its cause.
type impact struct {
	kinds    []unitKind
	delta    *state.Delta
	fastPath *endpointFastPath
	steps    *stepCache              // nil where the impact is of one class alone
	reasons  map[*class][]source.Key // what touched each class; nil where nobody asks
	// anyNames says that a class has names, which others need not be looked for.
	anyNames bool

	objects []source.Key // the causes; the first stands for noObject
	by      cause        // of what is added now

	hosts causes[model.Host]
	// endpoints are hosts of which only endpoints changed, and which the fast path leaves to the
	// classes.
	endpoints   causes[model.Host]
	ports       map[uint16]causes[model.Host] // of TCP listeners, with the hosts that touch them
	vips        causes[unit]                  // of vipKind
	names       causes[model.Host]            // of nameKind, of which only endpoints changed; nil for none
	aliases     causes[model.Host]            // what addAliases has added; nil for nothing
	own         bool                          // of ownKind
	ownBy       cause
	credentials []changedCredential
	virtual     causes[*model.VirtualService]
	// observes says that calls of the class are logged or traced otherwise than before, so that all
	// its listeners are compiled again.
	observes bool
	// mayObserve says that observes may become true for a class.
	mayObserve bool
	// patches is what other patches of a class than before may touch; nil where they are the same.
	patches *patchImpact
	// noUnits says that no class has a unit to compile. The fast path may still have something for
	// it.
	noUnits bool
}

// impactOf returns the impact of a delta. names says whether any class has names.
func (b unitBuilder) impactOf(d *state.Delta, f *endpointFastPath, names bool) *impact {
	m := b.noImpact(d)
	m.fastPath, m.anyNames = f, names
	for _, k := range m.kinds {
		k.mark(m)
	}
	m.noUnits, m.mayObserve = m.touchesNoUnit(), m.touchesReceivers()
	return m
}

// noImpact returns an impact in which nothing is marked.
func (b unitBuilder) noImpact(d *state.Delta) *impact {
	return &impact{
		kinds:     b.kinds,
		delta:     d,
		objects:   []source.Key{{}},
		hosts:     causes[model.Host]{},
		endpoints: causes[model.Host]{},
		ports:     map[uint16]causes[model.Host]{},
		vips:      causes[unit]{},
		virtual:   causes[*model.VirtualService]{},
	}
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
	m.hosts.add(host, m.by)
	for _, snap := range m.snapshots() {
		m.addPortsOf(snap, host)
	}
	m.addRoutesTo(host)
	m.addAliases(host)
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
	if m.virtual.has(vs) {
		return
	}
	m.virtual.add(vs, m.by)
	if !slices.Contains(vs.Gateways, model.Mesh) {
		return // the virtual hosts of gateways are units of their own, and no service's host takes part
	}
	for _, pattern := range vs.Hosts {
		m.hosts.add(pattern, m.by)
		for _, snap := range m.snapshots() {
			for host := range snap.HostsUnder(pattern) {
				m.hosts.add(host, m.by)
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
			if needsTCPListener(p.Protocol) || state.NeedsFilter(svc, p) {
				m.addPort(p.Port, host)
			}
			m.addVIPsOf(snap, svc, p)
		}
		if svc.IsCalledByPod() {
			m.addVIPs(podUnits(svc, snap.Endpoints(svc)))
		}
	}
}

func (m *impact) addVIPs(units []unit) {
	for _, u := range units {
		m.vips.add(u, m.by)
	}
}

// addVIPsOf adds what else has the virtual IPs of a service at a port, because the first of all has
// them.
func (m *impact) addVIPsOf(snap *state.Snapshot, svc *model.Service, p model.ServicePort) {
	for _, address := range svc.VIPs() {
		if needsTCPListener(p.Protocol) {
			m.vips.add(vipUnit(address, p.Port), m.by)
			continue
		}
		for other := range snap.ServicesAt(address, p.Port) {
			m.hosts.add(other.Host, m.by)
		}
	}
}

func (m *impact) addPort(port uint16, host model.Host) {
	if m.ports[port] == nil {
		m.ports[port] = causes[model.Host]{}
	}
	m.ports[port].add(host, m.by)
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

// addEndpointChange adds a host whose endpoints changed, where more than these depends on them.
func (m *impact) addEndpointChange(e state.EndpointChange) {
	switch {
	case e.From.IsEmpty() != e.To.IsEmpty() && m.calledByName(e.Host):
		m.because(endpointsOf(e))
		m.addClaimants(e.Host)
	case m.decideOnClusters(e):
		m.hosts.add(e.Host, m.because(endpointsOf(e)))
	}
}

// decideOnClusters reports whether changed endpoints change the clusters of a host: these are in
// mutual TLS of the mesh or not, or have the endpoints in them, which proxies look up. A Service
// whose name is looked up has no endpoints but that.
func (m *impact) decideOnClusters(e state.EndpointChange) bool {
	if !e.From.TakesTLSLike(e.To) && m.isCalledAsItIs(e.Host) {
		return true
	}
	return e.Entry != "" && m.anyClaimant(e.Host, func(svc *model.Service) bool { return svc.Resolution.IsByDNS() })
}

// endpointsOf returns the service whose endpoints changed.
func endpointsOf(e state.EndpointChange) source.Key { return serviceKey(e.Host, e.Namespace, e.Entry) }

// serviceKey returns the object that has a host: a ServiceEntry, or a Service if entry is empty.
func serviceKey(host model.Host, namespace, entry string) source.Key {
	if entry != "" {
		return source.Key{Kind: kinds.ServiceEntry, Namespace: namespace, Name: entry}
	}
	name, _, _ := strings.Cut(string(host), ".")
	return source.Key{Kind: kinds.Service, Namespace: namespace, Name: name}
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
	return rest.IsEmpty() && !m.own && len(m.hosts)+len(m.endpoints)+len(m.ports)+len(m.vips)+len(m.names) == 0
}

// units returns the units of a class that the delta may touch, sorted, and their causes.
func (m *impact) units(from, to *scope.Scope) ([]unit, causes[unit]) {
	found := causes[unit]{}
	for _, k := range m.kinds {
		k.touched(m, from, to, found)
	}
	m.patches.addUnits(from, to, found)
	return found.sortedBy(compareUnits), found
}
