package scope

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Certificate is the pair that the proxies of the class have under the name of a credential: that of their own namespace,
// whoever named it. It is nil unless it is Good.
func (s *Scope) Certificate(credential string) (*model.KeyPair, model.Holding) {
	s.evaluated()
	return s.world.Certificate(s.Namespace(), credential)
}

// Authorities are those that go with a credential: of the Secret that is for them alone, or of its own. They are nil unless Good.
func (s *Scope) Authorities(credential string) (*model.Authorities, model.Holding) {
	s.evaluated()
	return s.world.Authorities(s.Namespace(), credential)
}

// LackOf is what a server of a Gateway lacks of Secrets in the class's namespace.
func (s *Scope) LackOf(g *model.Gateway, server int) (source.Problem, bool) {
	return s.world.LackOf(g, server, s.Namespace())
}

// Uses tells whether the class's own configuration may name a credential: only then its proxies get it.
func (s *Scope) Uses(credential string) bool {
	for g := range s.world.GatewaysWith(credential) {
		if s.Applies(g) {
			return true
		}
	}
	for r := range s.world.DestinationRulesWith(credential) {
		if s.MayCallBy(r) {
			return true
		}
	}
	return false
}

// MayCallBy tells whether a DestinationRule's credentials are for the class: gateways have those of all rules that they see,
// sidecars those of rules that select them. Else every workload of a namespace could have what one of them calls with.
func (s *Scope) MayCallBy(r *model.DestinationRule) bool {
	s.evaluated()
	if r.Selector.IsEmpty() {
		return s.class.Type == Router && s.IsExported(r.ExportTo, r.Namespace)
	}
	return s.IsOwn(r.Namespace) && s.IsExported(r.ExportTo, r.Namespace) && s.Selected(r.Selector)
}

// Secured tells whether all is there that a client's TLS needs of the credential that it names, or of the proxy's agent: the
// worst of it.
func (s *Scope) Secured(t *model.ClientTLS) model.Holding {
	switch {
	case t != nil && t.Mode == model.IstioMutual && s.class.Settings.Agent:
		return model.Good
	case t == nil || t.Credential == "" || !s.Uses(t.Credential):
		return model.Missing
	}
	worst := model.Good
	if !t.InsecureSkipVerify {
		_, worst = s.Authorities(t.Credential)
	}
	if t.Mode == model.Mutual {
		_, pair := s.Certificate(t.Credential)
		worst = min(worst, pair)
	}
	return worst
}
