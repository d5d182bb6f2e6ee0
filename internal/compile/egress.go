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
	if from.Intercepts() && from.RegistryOnly() != to.RegistryOnly() {
		return m, false // each port has a part for unknown destinations
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

// egressChange returns the hosts that only one of two Sidecars lets in. narrow is false if these
// may be all.
func egressChange(from, to *scope.Scope) (changed []model.ScopedHost, narrow bool) {
	before, all := from.Egress()
	after, none := to.Egress()
	if all || none {
		return nil, all == none
	}
	sides := map[model.ScopedHost]uint8{}
	for _, h := range before {
		sides[h] |= 1
	}
	for _, h := range after {
		sides[h] |= 2
	}
	for h, side := range sides {
		switch {
		case side == 1|2:
		case h.Namespace == "*" && h.Host == "*":
			return nil, false
		default:
			changed = append(changed, h)
		}
	}
	return changed, true
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
