package scope

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// LookupCache remembers what a world says of hosts, so that many classes that ask for the same
// hosts in one step look them up once. It holds only what is the same for every class. It is used
// by one goroutine, for as long as one change takes.
type LookupCache struct {
	claims map[model.Host][]*model.Service
	routes map[model.Host][]*model.VirtualService
	rules  map[model.Host][][]*model.DestinationRule
}

// NewLookupCache returns a LookupCache for Scopes of one world.
func NewLookupCache() *LookupCache {
	return &LookupCache{
		claims: map[model.Host][]*model.Service{}, routes: map[model.Host][]*model.VirtualService{}, rules: map[model.Host][][]*model.DestinationRule{},
	}
}

// recall is what is remembered of a host; what is not, is looked up first.
func recall[T any](known map[model.Host]T, host model.Host, look func() T) T {
	found, ok := known[host]
	if !ok {
		found = look()
		known[host] = found
	}
	return found
}

// claimsTo yields the services that claim a host.
func (s *Scope) claimsTo(host model.Host) iter.Seq[*model.Service] {
	if s.Cache == nil {
		return s.world.Claims(host)
	}
	return slices.Values(s.Cache.claimsTo(s.world, host))
}

func (c *LookupCache) claimsTo(w *state.Snapshot, host model.Host) []*model.Service {
	return recall(c.claims, host, func() []*model.Service { return slices.Collect(w.Claims(host)) })
}

// serviceOf is the first visible claimant of a host, nil if there is none.
func (s *Scope) serviceOf(host model.Host) *model.Service {
	if s.Cache == nil {
		return first(s.world.Claims(host), s.sees)
	}
	return firstOf(s.Cache.claimsTo(s.world, host), s, (*Scope).sees)
}

// firstOf is first for what is remembered, without a function for each look: it is asked once for
// each class and change.
func firstOf[T any](list []*T, s *Scope, so func(*Scope, *T) bool) *T {
	for _, t := range list {
		if so(s, t) {
			return t
		}
	}
	return nil
}

// routesOf is the first VirtualService with routes for calls of the class to a host, the most
// specific first; nil if there is none.
func (s *Scope) routesOf(host model.Host) *model.VirtualService {
	if s.Cache == nil {
		return first(routesIn(s.world, host), s.hasRoutes)
	}
	w := s.world
	known := recall(s.Cache.routes, host, func() []*model.VirtualService { return slices.Collect(routesIn(w, host)) })
	return firstOf(known, s, (*Scope).hasRoutes)
}

func routesIn(w *state.Snapshot, host model.Host) iter.Seq[*model.VirtualService] {
	return func(yield func(*model.VirtualService) bool) {
		for pattern := range host.Patterns() {
			for v := range w.VirtualServicesOf(pattern) {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// rulesFor are the DestinationRules that may be for a host, those for one pattern together, the
// most specific first.
func (s *Scope) rulesFor(host model.Host) [][]*model.DestinationRule {
	if s.Cache == nil {
		return rulesIn(s.world, host)
	}
	w := s.world
	return recall(s.Cache.rules, host, func() [][]*model.DestinationRule { return rulesIn(w, host) })
}

func rulesIn(w *state.Snapshot, host model.Host) (found [][]*model.DestinationRule) {
	for pattern := range host.Patterns() {
		if rules := slices.Collect(w.DestinationRulesOf(pattern)); len(rules) > 0 {
			found = append(found, rules)
		}
	}
	return found
}
