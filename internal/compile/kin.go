package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A new class is mostly like one that is there: another workload of a namespace, or the workloads of another namespace. Then
// it begins as that one, its kin, and takes a step to what it sees itself: it costs what the two see otherwise, however much
// both see. So do classes of which a change touches everything, once one of them is compiled.

// kinAmong finds a class that a new one may begin as: of the same namespace, or else of any other, if neither has a Sidecar that
// limits what it sees. Nil if there is none.
func kinAmong(classes []*class, key *scope.Class, s *scope.Scope) (kin *class) {
	if key.Type != scope.Sidecar {
		return nil
	}
	for _, other := range classes {
		switch {
		case other.key.Type != key.Type || other.key.Settings != key.Settings || other.scope.RegistryOnly() != s.RegistryOnly():
		case other.key.Namespace != key.Namespace:
			if kin == nil && unlimited(s) && unlimited(&other.scope) {
				kin = other
			}
		case other.scope.Sidecar() == s.Sidecar():
			return other
		}
	}
	return kin
}

func unlimited(s *scope.Scope) bool {
	_, all := s.Egress()
	return all
}

// follow makes a class of its kin in a world, as if it were new.
func (c *class) follow(comp compiler, kin *class, w *state.Snapshot, s *scope.Scope) {
	c.scope, c.keys = kin.scope, kin.keys
	c.state = kin.state.Fork()
	c.tables, c.owners = maps.Clone(kin.tables), maps.Clone(kin.owners)
	c.varied, c.wants = maps.Clone(kin.varied), maps.Clone(kin.wants)
	c.conflicts = map[unit][]*source.Tallied{}
	for u, list := range kin.conflicts {
		for _, x := range list {
			comp.conflicts.Retain(x)
		}
		c.conflicts[u] = slices.Clone(list)
	}
	m, _ := difference(w, &kin.key, &c.key).of(&kin.scope, s)
	c.stepTo(comp, m, s, nil)
}

// difference is what two classes of sidecars may see otherwise in one world, but for what their Sidecars let in.
func difference(w *state.Snapshot, a, b *scope.Class) *impact {
	m := impactOf(&state.Delta{From: w, To: w}, nil)
	m.own = true
	if a.Namespace == b.Namespace && a.Selectors == b.Selectors {
		return m
	}
	differs := func(e model.Exports, owner string) bool {
		return e.Visible(owner, a.Namespace) != e.Visible(owner, b.Namespace)
	}
	for _, n := range slices.Compact([]string{a.Namespace, b.Namespace}) {
		if a.Namespace != b.Namespace {
			m.namedIn(n)
		}
		m.exported(n, differs)
		for r := range w.DestinationRulesIn(n) {
			m.rule(r)
		}
	}
	for vs := range w.VirtualServicesBySource() {
		m.differingRoutes(vs)
	}
	m.differingSecrets(b.Namespace)
	return m
}

// namedIn adds the hosts that have a short name in a namespace, and in no other.
func (m *impact) namedIn(namespace string) {
	w := m.delta.To
	short := model.Host("*." + namespace + ".svc." + w.Mesh.Domain)
	for h := range w.HostsUnder(short) {
		m.hosts[h] = true
	}
	for vs := range w.VirtualServicesUnder(short) {
		for _, h := range vs.Hosts {
			if short.Covers(h) {
				m.hosts[h] = true // be there a service or not
			}
		}
	}
}

// exported adds what is exported to a namespace, but not to all, where this makes a difference.
func (m *impact) exported(namespace string, differs func(e model.Exports, owner string) bool) {
	w := m.delta.To
	for svc := range w.ServicesExportedTo(namespace) {
		if differs(svc.ExportTo, svc.Namespace) {
			m.claims(svc.Host)
		}
	}
	for vs := range w.VirtualServicesExportedTo(namespace) {
		if differs(vs.ExportTo, vs.Namespace) {
			m.differingRoutes(vs)
		}
	}
	for r := range w.DestinationRulesExportedTo(namespace) {
		if differs(r.ExportTo, r.Namespace) {
			m.rule(r)
		}
	}
}

// differingRoutes adds what a VirtualService routes, and its destinations, which are seen because of it.
func (m *impact) differingRoutes(vs *model.VirtualService) {
	m.routes(vs)
	for _, h := range state.DestinationHosts(vs) {
		m.claims(h)
	}
}

// differingSecrets adds what depends on credentials: each namespace has its own.
func (m *impact) differingSecrets(namespace string) {
	for r := range m.delta.To.DestinationRulesWithAny() {
		m.rule(r)
		for _, name := range r.Credentials() {
			m.credentials = append(m.credentials, changedCredential{namespace: namespace, name: name})
		}
	}
}
