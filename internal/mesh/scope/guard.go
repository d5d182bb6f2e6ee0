package scope

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Refuses tells whether the guards in force refuse calls in plaintext to a port of the class's workloads.
func (s *Scope) Refuses(port uint16) bool {
	refuses := s.unauthorized() || s.class.Type == Sidecar && s.wantsTLS(port)
	s.asked(question{kind: whetherRefuses, port: port}, answer{yes: refuses})
	return refuses
}

// Guarded tells whether a guard is for the class.
func (s *Scope) Guarded(g *model.Guard) bool {
	return (g.Namespace == s.world.Mesh.RootNamespace || s.IsOwn(g.Namespace)) && s.Selected(g.Selector)
}

// Unauthorized tells whether AuthorizationPolicies refuse calls: one that denies does, and those that allow do if none of
// them admits.
func (s *Scope) Unauthorized() bool {
	is := s.unauthorized()
	s.asked(question{kind: whetherUnauthorized}, answer{yes: is})
	return is
}

func (s *Scope) unauthorized() bool {
	var admitted, restricted bool
	for _, namespace := range s.guardingNamespaces() {
		for g := range s.world.AuthorizationPolicies(namespace) {
			if !s.class.Selected(g.Selector) {
				continue
			}
			switch g.Effect {
			case model.GuardRefuses:
				return true
			case model.GuardAdmits:
				admitted = true
			case model.GuardAdmitsNone:
				restricted = true
			case model.GuardSilent:
			}
		}
	}
	return restricted && !admitted
}

func (s *Scope) guardingNamespaces() []string {
	return slices.Compact([]string{s.world.Mesh.RootNamespace, s.class.Namespace})
}

// wantsTLS tells whether the PeerAuthentication in force refuses calls in plaintext: the one that selects the workload, for
// the port or at all, then the namespace's, then the mesh's. Of several on one level the first in the total order counts.
func (s *Scope) wantsTLS(port uint16) bool {
	own, wide := s.peerAuthentications(s.class.Namespace)
	if own != nil {
		i := slices.IndexFunc(own.Ports, func(p model.GuardedPort) bool { return p.Port == port })
		if i >= 0 && own.Ports[i].Effect != model.GuardSilent {
			return own.Ports[i].Effect == model.GuardRefuses
		}
	}
	_, mesh := s.peerAuthentications(s.world.Mesh.RootNamespace)
	for _, g := range []*model.Guard{own, wide, mesh} {
		if g != nil && g.Effect != model.GuardSilent {
			return g.Effect == model.GuardRefuses
		}
	}
	return false
}

// peerAuthentications are those of a namespace in force: the one that selects the class's workloads, and the one for all.
func (s *Scope) peerAuthentications(namespace string) (own, wide *model.Guard) {
	for g := range s.world.PeerAuthentications(namespace) {
		switch {
		case g.Selector.IsEmpty():
			if wide == nil {
				wide = g
			}
		case own == nil && s.class.Selected(g.Selector):
			own = g
		}
	}
	return own, wide
}
