package compile

import (
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
)

// guards remembers the filters that policies come to, so that the classes which share policies
// translate them once.
type guards struct {
	policies *model.Interner[authz.Policy]
	tokens   *model.Interner[authz.Token]
	made     map[authz.Input]*listener.Guard
	pool     *model.Pool[listener.Guard]
}

func newGuards() *guards {
	return &guards{
		policies: model.NewInterner[authz.Policy](),
		tokens:   model.NewInterner[authz.Token](),
		made:     map[authz.Input]*listener.Guard{},
		pool:     model.NewPool[listener.Guard](),
	}
}

// sweep forgets all. Guards that listeners have stay canonical, and are found again.
func (g *guards) sweep() { clear(g.made) }

// guard returns the filters of a class's policies; nil without policies.
func (b unitBuilder) guard(s *scope.Scope) *listener.Guard {
	var list []authz.Policy
	for _, p := range s.AuthorizationPolicies() {
		list = append(list, authz.Policy{
			Namespace: p.Namespace,
			Name:      p.Name,
			Action:    p.Action,
			DryRun:    p.DryRun,
			Provider:  p.Provider,
			Rules:     p.Rules,
		})
	}
	tokens, closed := tokensOf(s)
	if len(list) == 0 && len(tokens) == 0 && !closed {
		return nil
	}
	mesh := s.Mesh()
	return b.guards.get(authz.Input{
		Policies:     b.guards.policies.List(list),
		TrustDomains: b.domains.List(append([]string{mesh.TrustDomain}, mesh.TrustDomainAliases...)),
		Tokens:       b.guards.tokens.List(tokens),
		ClearsRoutes: len(tokens) > 0 && s.Type() == scope.Router,
		Closed:       closed,
	})
}

// tokensOf returns the rules about tokens of a class's RequestAuthentications, and whether one of
// these refuses all requests.
func tokensOf(s *scope.Scope) (rules []authz.Token, closed bool) {
	for _, a := range s.RequestAuthentications() {
		closed = closed || a.Closed
		for _, r := range a.Rules {
			keys := r.Keys
			if r.KeysFrom != "" {
				keys = s.KeysFrom(r.KeysFrom)
			}
			rules = append(rules, authz.Token{Rule: r, Keys: keys})
		}
	}
	return rules, closed
}

func (g *guards) get(in authz.Input) *listener.Guard {
	made, known := g.made[in]
	if !known {
		made = g.pool.Canonical(guardOf(in))
		g.made[in] = made
	}
	return made
}

func guardOf(in authz.Input) *listener.Guard {
	guard := &listener.Guard{ClosesTCP: authz.RefusesConnections(in)}
	for _, f := range authz.HTTP(in) {
		guard.HTTP = append(guard.HTTP, filterOf(f.GetName(), f.GetTypedConfig()))
	}
	for _, f := range authz.TCP(in) {
		guard.TCP = append(guard.TCP, filterOf(f.GetName(), f.GetTypedConfig()))
	}
	return guard
}

func filterOf(name string, config *anypb.Any) listener.Filter {
	return listener.Filter{Name: name, Type: config.GetTypeUrl(), Config: string(config.GetValue())}
}
