package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Most new classes resemble a compiled one: another workload of a namespace, or workloads of
// another namespace. Such a class starts as a copy of that one, its base class, and takes a step to
// what it sees itself. That costs what the two see differently, however much both see. When a
// change touches everything, one class is recompiled and the others start from it.

// baseFor returns the class that a new one can start from; nil if there is none. It prefers a class
// of the same namespace. A class of another namespace will do if neither has a Sidecar that limits
// what it sees.
func baseFor(classes []*class, key *scope.Class, s *scope.Scope) (base *class) {
	if key.Type != scope.Sidecar {
		return nil
	}
	for _, other := range classes {
		switch {
		case other.key.Type != key.Type || other.key.Settings != key.Settings ||
			other.key.Stated != key.Stated || other.scope.Outbound() != s.Outbound():
		case other.key.Namespace != key.Namespace:
			if base == nil && seesAll(s) && seesAll(&other.scope) {
				base = other
			}
		case other.scope.Sidecar() == s.Sidecar():
			return other
		}
	}
	return base
}

func seesAll(s *scope.Scope) bool {
	_, all := s.Egress()
	return all
}

// startFrom makes the class a copy of its base, and takes the copy to what the class sees itself.
func (c *class) startFrom(builder unitBuilder, base *class, snap *state.Snapshot, s *scope.Scope) {
	c.scope, c.placeLabels = base.scope, base.placeLabels
	c.state = base.state.Fork()
	c.tables, c.owners = maps.Clone(base.tables), maps.Clone(base.owners)
	c.varied, c.labelUses = maps.Clone(base.varied), maps.Clone(base.labelUses)
	c.variedClusters = base.variedClusters
	c.patches, c.matches = base.patches, base.matches
	c.problems = map[unit][]*source.Tallied{}
	c.ownMaps()
	for u, list := range base.problems {
		for _, x := range list {
			builder.problems.Retain(x)
		}
		c.problems[u] = slices.Clone(list)
	}
	c.become(builder, &base.key, snap, s)
}

// become takes what was compiled for another class of sidecars to what the class sees itself, in
// one snapshot. The class's scope is still that of the other.
func (c *class) become(
	builder unitBuilder, from *scope.Class, snap *state.Snapshot, s *scope.Scope,
) (changed []resource.ClassState, rekeyed bool) {
	m, _ := builder.difference(snap, from, &c.key).forClass(&c.scope, s)
	m = m.observing(c.state, &c.scope, s).patching(builder, &c.scope, s)
	return c.stepTo(builder, m, s, nil)
}

// difference is the impact of taking one class of sidecars for another in one snapshot. forClass
// adds what their Sidecars let in.
func (b unitBuilder) difference(snap *state.Snapshot, from, to *scope.Class) *impact {
	m := b.noImpact(&state.Delta{From: snap, To: snap})
	for _, k := range m.kinds {
		k.differs(m, from, to)
	}
	return m
}

// addShortNames adds the hosts that have a short name in a namespace, and in no other.
func (m *impact) addShortNames(namespace string) {
	snap := m.delta.To
	short := model.Host("*." + namespace + ".svc." + snap.Mesh.Domain)
	for h := range snap.HostsUnder(short) {
		m.hosts.add(h, m.by)
	}
	for vs := range snap.VirtualServicesUnder(short) {
		for _, h := range vs.Hosts {
			if short.Covers(h) {
				m.hosts.add(h, m.by) // whether a service exists or not
			}
		}
	}
}

// addContested adds the hosts of a namespace's ServiceEntries that others claim too: in the
// namespace its own come first.
func (m *impact) addContested(namespace string) {
	snap := m.delta.To
	for svc := range snap.ServicesIn(namespace) {
		if svc.Kind == kinds.ServiceEntry && isContested(snap, svc) {
			m.addClaimants(svc.Host)
		}
	}
}

// addOwnRoutes adds what the VirtualServices of a namespace route, where those for hosts of others
// are for its own callers alone.
func (m *impact) addOwnRoutes(namespace string) {
	snap := m.delta.To
	if !snap.Mesh.OwnHostsOnly {
		return
	}
	for vs := range snap.VirtualServicesIn(namespace) {
		m.addRoutes(vs)
	}
}

// isContested reports whether a service of another namespace claims a service's host.
func isContested(snap *state.Snapshot, svc *model.Service) bool {
	for other := range snap.Claims(svc.Host) {
		if other.Namespace != svc.Namespace {
			return true
		}
	}
	return false
}

// addExported adds what is exported to a namespace, but not to all, where that makes a difference.
func (m *impact) addExported(namespace string, differs func(e model.Exports, owner string) bool) {
	snap := m.delta.To
	for svc := range snap.ServicesExportedTo(namespace) {
		if differs(svc.ExportTo, svc.Namespace) {
			m.addClaimants(svc.Host)
		}
	}
	for vs := range snap.VirtualServicesExportedTo(namespace) {
		if differs(vs.ExportTo, vs.Namespace) {
			m.addRoutesAndDestinations(vs)
		}
	}
	for r := range snap.DestinationRulesExportedTo(namespace) {
		if differs(r.ExportTo, r.Namespace) {
			m.addRule(r)
		}
	}
}

// addRoutesAndDestinations adds what a VirtualService routes, and its destinations, which are
// visible because of it.
func (m *impact) addRoutesAndDestinations(vs *model.VirtualService) {
	m.addRoutes(vs)
	for _, h := range state.DestinationHosts(vs) {
		m.addDestination(h)
	}
}
