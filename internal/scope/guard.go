package scope

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
)

// Refuses tells whether the guards in force refuse calls in plaintext to a port of the class's workloads.
func (s *Scope) Refuses(port uint16) bool {
	return s.Unauthorized() || s.Class.Type == Sidecar && s.wantsTLS(port)
}

// HasMeshTLS tells that mutual TLS is on among workloads that can, and the class's proxies have an agent that gives them a
// certificate for it.
func (s *Scope) HasMeshTLS() bool { return s.World.Mesh.AutoTLS && s.Class.Settings.Agent }

// Guarded tells whether a guard is for the class.
func (s *Scope) Guarded(g *model.Guard) bool {
	return (g.Namespace == s.Class.Namespace || g.Namespace == s.World.Mesh.RootNamespace) && s.Class.Selected(g.Selector)
}

// Unauthorized tells whether AuthorizationPolicies refuse calls: one that denies does, and those that allow do if none of
// them admits.
func (s *Scope) Unauthorized() bool {
	var admitted, restricted bool
	for _, namespace := range s.guardingNamespaces() {
		for g := range s.World.AuthorizationPolicies(namespace) {
			if !s.Guarded(g) {
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
	return slices.Compact([]string{s.World.Mesh.RootNamespace, s.Class.Namespace})
}

// wantsTLS tells whether the PeerAuthentication in force refuses calls in plaintext: the one that selects the workload, for
// the port or at all, then the namespace's, then the mesh's. Of several on one level the first in the total order counts.
func (s *Scope) wantsTLS(port uint16) bool {
	own, wide := s.peerAuthentications(s.Class.Namespace)
	if own != nil {
		i := slices.IndexFunc(own.Ports, func(p model.GuardedPort) bool { return p.Port == port })
		if i >= 0 && own.Ports[i].Effect != model.GuardSilent {
			return own.Ports[i].Effect == model.GuardRefuses
		}
	}
	_, mesh := s.peerAuthentications(s.World.Mesh.RootNamespace)
	for _, g := range []*model.Guard{own, wide, mesh} {
		if g != nil && g.Effect != model.GuardSilent {
			return g.Effect == model.GuardRefuses
		}
	}
	return false
}

// peerAuthentications are those of a namespace in force: the one that selects the class's workloads, and the one for all.
func (s *Scope) peerAuthentications(namespace string) (own, wide *model.Guard) {
	for g := range s.World.PeerAuthentications(namespace) {
		switch {
		case g.Selector.IsEmpty():
			if wide == nil {
				wide = g
			}
		case own == nil && s.Class.Selected(g.Selector):
			own = g
		}
	}
	return own, wide
}
