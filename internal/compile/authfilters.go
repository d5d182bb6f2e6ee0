package compile

import (
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// authFilterCache remembers the filters that policies come to, so that the classes which share
// policies translate them once.
type authFilterCache struct {
	policies *model.Interner[authz.Policy]
	tokens   *model.Interner[authz.Token]
	made     map[authFiltersKey]*listener.AuthFilters
	pool     *model.Pool[listener.AuthFilters]
}

func newAuthFilterCache() *authFilterCache {
	return &authFilterCache{
		policies: model.NewInterner[authz.Policy](),
		tokens:   model.NewInterner[authz.Token](),
		made:     map[authFiltersKey]*listener.AuthFilters{},
		pool:     model.NewPool[listener.AuthFilters](),
	}
}

// sweep forgets all. AuthFilters that listeners have stay canonical, and are found again.
func (c *authFilterCache) sweep() { clear(c.made) }

// authFiltersKey is policies, and whether the proxy takes filters of requests as a resource.
type authFiltersKey struct {
	in    authz.Input
	apart bool
}

// authFiltersOf returns the filters of a class's policies; nil without policies.
func (b unitBuilder) authFiltersOf(s *scope.Scope) *listener.AuthFilters {
	in, any := b.policies(s)
	if !any {
		return nil
	}
	return b.authFilters.get(authFiltersKey{in, b.policiesApart(s)})
}

// policySlots returns the filters of requests of a class that has them as a resource. Each class
// with policies has one of this name, and classes with the same policies share it.
func (b unitBuilder) policySlots(s *scope.Scope) []slot {
	if !b.policiesApart(s) {
		return nil
	}
	in, any := b.policies(s)
	if !any {
		return nil
	}
	return []slot{{typ: resource.Filter, name: pb.PolicyFilters, get: func() emitted {
		return b.filters.with(in, b.policyPatches(s))
	}}}
}

// policies returns the policies of a class, and whether there are any.
func (b unitBuilder) policies(s *scope.Scope) (in authz.Input, any bool) {
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
		return in, false
	}
	mesh := s.Mesh()
	return authz.Input{
		Policies:     b.authFilters.policies.List(list),
		TrustDomains: b.domains.List(append([]string{mesh.TrustDomain}, mesh.TrustDomainAliases...)),
		Tokens:       b.authFilters.tokens.List(tokens),
		ClearsRoutes: len(tokens) > 0 && s.Type() == scope.Router,
		Closed:       closed,
	}, true
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

func (c *authFilterCache) get(k authFiltersKey) *listener.AuthFilters {
	made, known := c.made[k]
	if !known {
		made = c.pool.Canonical(makeAuthFilters(k))
		c.made[k] = made
	}
	return made
}

func makeAuthFilters(k authFiltersKey) *listener.AuthFilters {
	filters := &listener.AuthFilters{ClosesTCP: authz.RefusesConnections(k.in)}
	if k.apart {
		filters.Apart = pb.PolicyFilters
	} else {
		for _, f := range authz.HTTP(k.in) {
			filters.HTTP = append(filters.HTTP, filterOf(f.GetName(), f.GetTypedConfig()))
		}
	}
	if filters.ClosesTCP {
		return filters // there is nothing left for filters to decide on
	}
	for _, f := range authz.TCP(k.in) {
		filters.TCP = append(filters.TCP, filterOf(f.GetName(), f.GetTypedConfig()))
	}
	return filters
}

func filterOf(name string, config *anypb.Any) listener.Filter {
	return listener.Filter{Name: name, Type: config.GetTypeUrl(), Config: string(config.GetValue())}
}
