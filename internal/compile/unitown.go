package compile

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// ownKind is what a proxy has whatever it calls: the filters of its policies, and of a sidecar the
// inbound ports, the HTTP proxy port and its route table, and listeners of its Sidecar for calls. A
// class has one such unit.
type ownKind struct{}

func (ownKind) String() string { return "own" }

func (ownKind) all(_ *scope.Scope, add func(unit)) { add(unit{kind: ownKind{}}) }

func (ownKind) mark(*impact) {}

func (ownKind) differs(m *impact, _, _ *scope.Class) { m.own = true }

func (ownKind) touched(m *impact, from, to *scope.Scope, found causes[unit]) {
	by, changed := m.policiesChanged(from, to)
	switch {
	case m.own:
		found.add(unit{kind: ownKind{}}, m.ownBy)
	case changed:
		found.add(unit{kind: ownKind{}}, by)
	}
	if by, changed := m.egressChanged(to); changed {
		found.add(unit{kind: ownKind{}}, by)
	}
}

func (ownKind) slots(b unitBuilder, s *scope.Scope, _ unit, report func(source.Problem)) []slot {
	return b.own(s, report)
}

// policiesChanged reports whether a policy of the class changed, and which: they decide which calls
// it accepts, and how these are observed.
func (m *impact) policiesChanged(from, to *scope.Scope) (by cause, changed bool) {
	by = cmp.Or(
		anyOf(m, m.delta.AuthorizationPolicies, from.HasAuthorizationPolicy, to.HasAuthorizationPolicy),
		anyOf(m, m.delta.PeerAuthentications, from.HasPeerAuthentication, to.HasPeerAuthentication),
		anyOf(m, m.delta.RequestAuthentications, from.HasRequestAuthentication, to.HasRequestAuthentication),
		anyOf(m, m.delta.KeySets, from.UsesKeySet, to.UsesKeySet),
	)
	if m.observes {
		return m.ownBy, true
	}
	return by, by != noObject
}

// anyOf returns one of the changed objects that was there for a class, or is; noObject if there is
// none.
func anyOf[T any, P keyed[T]](m *impact, changed []state.Pair[T], was, is func(*T) bool) cause {
	i := slices.IndexFunc(changed, func(p state.Pair[T]) bool {
		return p.Old != nil && was(p.Old) || p.New != nil && is(p.New)
	})
	if i < 0 {
		return noObject
	}
	return m.causeOf(P(changed[i].Either()).Key())
}

// keyed are objects that know their keys.
type keyed[T any] interface {
	*T
	Key() source.Key
}
