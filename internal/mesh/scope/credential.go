package scope

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Certificate returns the key pair that the class's proxies have for a credential, nil unless it is
// Good. It always comes from the proxies' own namespace.
func (s *Scope) Certificate(credential string) (*model.KeyPair, model.Holding) {
	s.evaluated()
	if s.class.Settings.Credentials == NoCredentials {
		return nil, model.Missing
	}
	return s.snapshot.Certificate(s.Namespace(), credential)
}

// Authorities returns the CA certificates of a credential, nil unless they are Good.
func (s *Scope) Authorities(credential string) (*model.Authorities, model.Holding) {
	s.evaluated()
	if s.class.Settings.Credentials == NoCredentials {
		return nil, model.Missing
	}
	return s.snapshot.Authorities(s.Namespace(), credential)
}

// SecretProblem returns the first problem with the Secrets that a server of a Gateway names, in the
// class's namespace.
func (s *Scope) SecretProblem(g *model.Gateway, server int) (source.Problem, bool) {
	return s.snapshot.SecretProblem(g, server, s.Namespace())
}

// CredentialsProblem says why a server of a Gateway that names Secrets is closed to proxies which
// may not have any. It does not name the proxies, since what they are was not proven.
func (s *Scope) CredentialsProblem(g *model.Gateway, server int) (source.Problem, bool) {
	t := g.Servers[server].TLS
	if t == nil || s.mayUseCredentialsIn(g) || len(t.Credentials) == 0 && t.CACredential == "" {
		return source.Problem{}, false
	}
	return source.Problem{
		Severity: source.Warning, Path: g.ServerField(server, "tls"),
		Message: "some connected proxies that this Gateway selects, in namespace " + s.Namespace() +
			", may not have its Secrets; the server stays closed on them",
		Want: model.WantGatewayPod,
	}, true
}

// Presents returns the credential with the certificate that the class's proxies present to servers
// whose owners demand TLS, "" for none, and whether it is there.
func (s *Scope) Presents() (string, model.Holding) {
	if s.class.Type != Router {
		return "", model.Missing
	}
	for g := range s.snapshot.PresentingGateways() {
		if !s.Applies(g) {
			continue
		}
		if !s.mayUseCredentialsIn(g) {
			return g.Presents, model.Missing
		}
		_, holds := s.Certificate(g.Presents)
		return g.Presents, holds
	}
	return "", model.Missing
}

// Uses reports whether the class's own configuration may name a credential. Only then its proxies
// get it.
func (s *Scope) Uses(credential string) bool {
	if s.class.Settings.Credentials == NoCredentials {
		return false
	}
	for g := range s.snapshot.GatewaysWith(credential) {
		if s.Applies(g) && s.mayUseCredentialsIn(g) {
			return true
		}
	}
	for r := range s.snapshot.DestinationRulesWith(credential) {
		if s.MayUseCredentialsOf(r) {
			return true
		}
	}
	return false
}

// mayUseCredentialsIn reports whether the class may have the credentials of a Gateway that applies
// to it.
func (s *Scope) mayUseCredentialsIn(g *model.Gateway) bool {
	switch s.class.Settings.Credentials {
	case AllCredentials:
		return true
	case OwnGatewayCredentials:
		return g.IsOfDeployment() && s.IsOwn(g.Workloads) && s.Selected(g.Selector)
	}
	return false
}

// MayUseCredentialsOf reports whether the class may have the credentials of a DestinationRule.
// Gateways with AllCredentials may for all rules that they see, sidecars only for rules that select
// them: otherwise every workload of a namespace could have the credential of one of them.
func (s *Scope) MayUseCredentialsOf(r *model.DestinationRule) bool {
	s.evaluated()
	if s.class.Settings.Credentials != AllCredentials {
		return false
	}
	if r.Selector.IsEmpty() {
		return s.class.Type == Router && s.IsExported(r.ExportTo, r.Namespace)
	}
	return s.IsOwn(r.Namespace) && s.IsExported(r.ExportTo, r.Namespace) && s.Selected(r.Selector)
}

// Secured returns the state of everything that a client's TLS needs from its credential or the
// proxy's agent. The worst part counts.
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
