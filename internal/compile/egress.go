package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// forClass adds to the impact what another Sidecar in force means for one class, or a change of the
// same one: the hosts that only one of the two lets in, and what depends on these. narrow is false
// if all that the class has may be touched. Such a class is compiled from nothing, which the memo
// makes cheap and the sets keep small on the wire.
func (m *impact) forClass(from, to *scope.Scope) (of *impact, narrow bool) {
	if m.delta.Mesh {
		return m, false
	}
	if from.Sidecar() == to.Sidecar() {
		return m, true
	}
	if from.Intercepts() && from.Outbound() != to.Outbound() {
		return m, false // each port has a part for unknown destinations
	}
	if from.LimitsPorts() || to.LimitsPorts() {
		return m, false // hosts come and go by port
	}
	changed, narrow := egressChange(from, to)
	if !narrow {
		return m, false
	}
	of = m.clone()
	of.by = noObject
	for _, p := range m.delta.Sidecars {
		if p.Old != nil && p.Old == from.Sidecar() || p.New != nil && p.New == to.Sidecar() {
			of.because(p.Either().Key())
			break
		}
	}
	of.own, of.ownBy = true, of.by
	of.steps = nil
	for _, h := range changed {
		for _, snap := range m.snapshots() {
			of.addListed(snap, h)
		}
	}
	return of, true
}

func (m *impact) clone() *impact {
	c := *m
	c.objects = slices.Clip(m.objects)
	c.hosts, c.endpoints, c.virtual = maps.Clone(m.hosts), maps.Clone(m.endpoints), maps.Clone(m.virtual)
	c.vips, c.aliases = maps.Clone(m.vips), maps.Clone(m.aliases)
	c.ports = map[uint16]causes[model.Host]{}
	for port, hosts := range m.ports {
		c.ports[port] = maps.Clone(hosts)
	}
	return &c
}

// egressChange returns hosts that cover all that only one of two Sidecars shows. narrow is false if
// these may be all.
func egressChange(from, to *scope.Scope) (changed []model.ScopedHost, narrow bool) {
	before, all := from.Egress()
	after, none := to.Egress()
	if all || none {
		return nil, all == none
	}
	old, now := shown(before), shown(after)
	for h, hidden := range old {
		changed = append(changed, shownOtherwise(h, hidden, now[h])...)
	}
	for h, hidden := range now {
		if old[h] == nil {
			changed = append(changed, shownOtherwise(h, nil, hidden)...)
		}
	}
	return changed, !slices.Contains(changed, model.ScopedHost{Namespace: "*", Host: "*"})
}

// shown returns the hosts that listeners list, and what each listener hides beside them.
func shown(listeners []model.EgressListener) map[model.ScopedHost][][]model.ScopedHost {
	hosts := map[model.ScopedHost][][]model.ScopedHost{}
	for _, l := range listeners {
		for _, h := range l.Hosts {
			hosts[h] = append(hosts[h], l.Hidden)
		}
	}
	return hosts
}

// shownOtherwise returns hosts that cover what a listed host shows on one side alone. If both sides
// list it, that is below what is hidden on one of them.
func shownOtherwise(h model.ScopedHost, old, now [][]model.ScopedHost) []model.ScopedHost {
	switch {
	case old == nil || now == nil:
		return []model.ScopedHost{h}
	case slices.EqualFunc(old, now, slices.Equal):
		return nil
	}
	return slices.Concat(slices.Concat(old...), slices.Concat(now...))
}

// addListed adds what becomes visible or invisible when a Sidecar begins or ceases to list a host.
func (m *impact) addListed(snap *state.Snapshot, h model.ScopedHost) {
	switch {
	case !h.Host.IsWildcard():
		m.addClaimants(h.Host)
		for pattern := range h.Host.Patterns() {
			for vs := range snap.VirtualServicesOf(pattern) {
				m.addListedRoutes(vs, h)
			}
		}
	case h.Namespace == "*":
		for host := range snap.HostsUnder(h.Host) {
			m.addClaimants(host)
		}
		for vs := range snap.VirtualServices() {
			m.addListedRoutes(vs, h)
		}
	default:
		for svc := range snap.ServicesIn(h.Namespace) {
			if h.Host.Covers(svc.Host) {
				m.addClaimants(svc.Host)
			}
		}
		for vs := range snap.VirtualServicesIn(h.Namespace) {
			m.addListedRoutes(vs, h)
		}
	}
}

// addListedRoutes adds what depends on a VirtualService that a listed host lets in. Its
// destinations are visible because of it.
func (m *impact) addListedRoutes(vs *model.VirtualService, h model.ScopedHost) {
	overlaps := func(host model.Host) bool { return h.Overlaps(vs.Namespace, host) }
	if !slices.ContainsFunc(vs.Hosts, overlaps) {
		return
	}
	m.addRoutes(vs)
	for _, host := range state.DestinationHosts(vs) {
		m.addDestination(host)
	}
}
