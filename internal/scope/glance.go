package scope

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/model"
)

// Glance remembers what a world says of hosts, whoever asks, so that many classes that look at the same hosts one after another
// look it up once. It is used by one goroutine, for as long as one change takes.
type Glance struct {
	claims map[model.Host][]*model.Service
	routes map[model.Host][]*model.VirtualService
	rules  map[model.Host][][]*model.DestinationRule
}

// NewGlance returns a Glance for Scopes of one world.
func NewGlance() *Glance {
	return &Glance{
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
	if s.Glance == nil {
		return s.World.Claims(host)
	}
	return slices.Values(s.Glance.claimsTo(s.World, host))
}

func (g *Glance) claimsTo(w *state.World, host model.Host) []*model.Service {
	return recall(g.claims, host, func() []*model.Service { return slices.Collect(w.Claims(host)) })
}

// serviceOf is the first visible claimant of a host, nil if there is none.
func (s *Scope) serviceOf(host model.Host) *model.Service {
	if s.Glance == nil {
		return first(s.World.Claims(host), s.sees)
	}
	return firstOf(s.Glance.claimsTo(s.World, host), s, (*Scope).sees)
}

// firstOf is first for what is remembered, without a function for each look: it is asked once for each class and change.
func firstOf[T any](list []*T, s *Scope, so func(*Scope, *T) bool) *T {
	for _, t := range list {
		if so(s, t) {
			return t
		}
	}
	return nil
}

// routesOf is the first VirtualService with routes for calls of the class to a host, the most specific first; nil if there is none.
func (s *Scope) routesOf(host model.Host) *model.VirtualService {
	if s.Glance == nil {
		return first(routesIn(s.World, host), s.HasRoutes)
	}
	w := s.World
	known := recall(s.Glance.routes, host, func() []*model.VirtualService { return slices.Collect(routesIn(w, host)) })
	return firstOf(known, s, (*Scope).HasRoutes)
}

func routesIn(w *state.World, host model.Host) iter.Seq[*model.VirtualService] {
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

// rulesFor are the DestinationRules that may be for a host, those for one pattern together, the most specific first.
func (s *Scope) rulesFor(host model.Host) [][]*model.DestinationRule {
	if s.Glance == nil {
		return rulesIn(s.World, host)
	}
	w := s.World
	return recall(s.Glance.rules, host, func() [][]*model.DestinationRule { return rulesIn(w, host) })
}

func rulesIn(w *state.World, host model.Host) (found [][]*model.DestinationRule) {
	for pattern := range host.Patterns() {
		if rules := slices.Collect(w.DestinationRulesOf(pattern)); len(rules) > 0 {
			found = append(found, rules)
		}
	}
	return found
}
