package scope

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// LookupCache remembers what a snapshot says of hosts, so that classes that ask for the same hosts
// in one step look them up once. It holds only what is the same for every class. One goroutine uses
// it, for the time of one change.
type LookupCache struct {
	claims map[model.Host][]*model.Service
	routes map[model.Host][]*model.VirtualService
	rules  map[model.Host][][]*model.DestinationRule
}

// NewLookupCache returns a LookupCache for Scopes of one snapshot.
func NewLookupCache() *LookupCache {
	return &LookupCache{
		claims: map[model.Host][]*model.Service{},
		routes: map[model.Host][]*model.VirtualService{},
		rules:  map[model.Host][][]*model.DestinationRule{},
	}
}

// getOrLoad returns the cached value of a host, and loads it the first time.
func getOrLoad[T any](known map[model.Host]T, host model.Host, look func() T) T {
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
		return s.snapshot.Claims(host)
	}
	return slices.Values(s.Cache.claimsTo(s.snapshot, host))
}

func (c *LookupCache) claimsTo(snap *state.Snapshot, host model.Host) []*model.Service {
	return getOrLoad(c.claims, host, func() []*model.Service { return slices.Collect(snap.Claims(host)) })
}

// serviceOf returns the service that the class calls by a host, nil if it sees none that claims the
// host. Sidecars prefer a claimant of their own namespace, as in Istio: nobody elsewhere can take a
// host from it. Without one, and for gateways, it is the first.
func (s *Scope) serviceOf(host model.Host) (found *model.Service) {
	if s.Cache != nil {
		for _, claim := range s.Cache.claimsTo(s.snapshot, host) {
			var final bool
			if found, final = s.preferred(found, claim); final {
				break
			}
		}
		return found
	}
	for claim := range s.snapshot.Claims(host) {
		var final bool
		if found, final = s.preferred(found, claim); final {
			break
		}
	}
	return found
}

// preferred returns which of two claimants the class calls, of which found, nil if there is none
// yet, comes first in the total order. final reports that no later one takes its place.
func (s *Scope) preferred(found, claim *model.Service) (_ *model.Service, final bool) {
	own := s.class.Type == Sidecar && claim.Namespace == s.class.Namespace
	if found != nil && !own || !s.sees(claim) {
		return found, false
	}
	return claim, own || s.class.Type != Sidecar
}

// routesIn returns the VirtualServices that may be for a host.
func (c *LookupCache) routesIn(snap *state.Snapshot, host model.Host) []*model.VirtualService {
	return getOrLoad(c.routes, host, func() []*model.VirtualService { return slices.Collect(routesIn(snap, host)) })
}

// routesIn yields the VirtualServices that may be for a host, those of the most specific host
// first.
func routesIn(snap *state.Snapshot, host model.Host) iter.Seq[*model.VirtualService] {
	return func(yield func(*model.VirtualService) bool) {
		for pattern := range host.Patterns() {
			for v := range snap.VirtualServicesOf(pattern) {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// rulesFor returns the DestinationRules that may be for a host, grouped by pattern, the most
// specific first.
func (s *Scope) rulesFor(host model.Host) [][]*model.DestinationRule {
	if s.Cache == nil {
		return rulesIn(s.snapshot, host)
	}
	snap := s.snapshot
	return getOrLoad(s.Cache.rules, host, func() [][]*model.DestinationRule { return rulesIn(snap, host) })
}

func rulesIn(snap *state.Snapshot, host model.Host) (found [][]*model.DestinationRule) {
	for pattern := range host.Patterns() {
		if rules := slices.Collect(snap.DestinationRulesOf(pattern)); len(rules) > 0 {
			found = append(found, rules)
		}
	}
	return found
}
