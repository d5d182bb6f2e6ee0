package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// secretKind is a credential: its certificate, and the authorities that go with it.
type secretKind struct{}

func secretUnit(credential string) unit { return unit{kind: secretKind{}, name: credential} }

func (secretKind) String() string { return "secret" }

// all adds the credentials that DestinationRules and Gateways of the class name.
func (secretKind) all(s *scope.Scope, add func(unit)) {
	for r := range s.DestinationRulesWithAny() {
		if s.MayUseCredentialsOf(r) {
			for _, name := range r.Credentials() {
				add(secretUnit(name))
			}
		}
	}
	if s.Type() == scope.Sidecar {
		return
	}
	for g := range s.Gateways() {
		for _, name := range g.Credentials() {
			add(secretUnit(name))
		}
	}
}

func (secretKind) mark(m *impact) {
	for _, p := range m.delta.Credentials {
		m.because(p.Either().Key())
		m.addCredential(p.Either())
	}
}

// differs adds what depends on credentials, since each namespace has its own.
func (secretKind) differs(m *impact, a, b *scope.Class) {
	if a.Namespace == b.Namespace && a.Selectors == b.Selectors {
		return
	}
	for r := range m.delta.To.DestinationRulesWithAny() {
		m.addRule(r)
		for _, name := range r.Credentials() {
			m.credentials = append(m.credentials, changedCredential{namespace: b.Namespace, name: name, by: m.by})
		}
	}
}

// touched adds the secrets that changed, and those that changed objects name.
func (secretKind) touched(m *impact, from, to *scope.Scope, found causes[unit]) {
	for _, c := range m.credentials {
		if name := c.nameFor(to); name != "" {
			found.add(secretUnit(name), c.by)
		}
	}
	for _, p := range m.delta.DestinationRules {
		for _, r := range []*model.DestinationRule{p.Old, p.New} {
			if r == nil {
				continue
			}
			for _, name := range r.Credentials() {
				found.add(secretUnit(name), m.causeOf(r.Key()))
			}
		}
	}
	if to.Type() == scope.Sidecar {
		return
	}
	for _, s := range []*scope.Scope{from, to} {
		for g, by := range m.gatewaysOf(s) {
			for _, name := range g.Credentials() {
				found.add(secretUnit(name), by)
			}
		}
	}
}

func (secretKind) slots(b unitBuilder, s *scope.Scope, u unit, _ func(source.Problem)) []slot {
	return b.secretSlots(s, u.name)
}
