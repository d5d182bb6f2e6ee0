package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// A service of resolution DYNAMIC_DNS is a wildcard. The proxy looks up the name below it that a
// request (Host) or connection (SNI) is for, with a filter in front of the service's cluster. Only
// names that the wildcard covers are looked up, at the port that was called: others would lead to
// what nobody declared. Gateways look none up, as in Istio.

// isLookedUp reports whether the class's proxies look names up for a service.
func isLookedUp(s *scope.Scope, svc *model.Service) bool {
	return svc.Resolution == model.DynamicDNS && s.Type() == scope.Sidecar && s.Settings().DynamicDNS
}

// leadsToNames reports whether requests for a host lead to a service for which the host's names are
// looked up.
func leadsToNames(s *scope.Scope, h hostPort, facts *model.List[route.DestinationFact]) bool {
	for f := range facts.All() {
		if svc := s.Service(f.Host); svc != nil && isLookedUp(s, svc) && svc.Host.Covers(h.host) {
			return true
		}
	}
	return false
}

// lookUp has a chain look up the server names of its connections, if it leads to a service for
// which that is done. The chain is closed if it may have names that the service does not cover.
func (b *chainBuilder) lookUp(chain listener.Chain, svc *model.Service, port uint16) listener.Chain {
	if !isLookedUp(b.scope, svc) {
		return chain
	}
	chain.ForwardPort, chain.DynamicDNS = port, true
	chain.Closed = chain.Closed || chain.SNI.Len() == 0
	for name := range chain.SNI.All() {
		chain.Closed = chain.Closed || !svc.Host.Covers(model.Host(name))
	}
	return chain
}

// lookUpAny is lookUp for a chain to some destinations.
func (b *chainBuilder) lookUpAny(chain listener.Chain, destinations []model.Destination) listener.Chain {
	for _, d := range destinations {
		if svc, port := b.resolve(d); svc != nil && (d.Weight > 0 || len(destinations) == 1) {
			chain = b.lookUp(chain, svc, port)
		}
	}
	return chain
}
