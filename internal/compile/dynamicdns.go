package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A service of resolution DYNAMIC_DNS is a wildcard. The proxy looks up the name below it that a
// request (Host) or connection (SNI) is for, with a filter in front of the service's cluster. Only
// names that the wildcard covers are looked up, at the port that was called: others would lead to
// what nobody declared. Gateways look none up, as in Istio.

// isLookedUp reports whether the class's proxies look names up for a service.
func isLookedUp(s *scope.Scope, svc *model.Service) bool {
	return svc.Resolution == model.DynamicDNS && s.Type() == scope.Sidecar && s.Settings().DynamicDNS
}

// looksUpAny reports whether the class's proxies look up whatever host a request names, if the mesh
// does not know it. To others ALLOW_ANY_DYNAMIC_DNS is ALLOW_ANY.
func looksUpAny(s *scope.Scope) bool {
	return s.Outbound().DynamicDNS && s.Type() == scope.Sidecar && s.Settings().DynamicDNS
}

// anyNameSlots returns the cluster of requests for unknown hosts that are looked up.
func (b unitBuilder) anyNameSlots(s *scope.Scope) []slot {
	if !looksUpAny(s) {
		return nil
	}
	mesh := s.Mesh()
	return []slot{{typ: resource.Cluster, name: cluster.AnyNameName, get: func() emitted {
		return b.passthrough.with(cluster.PassthroughInput{
			DynamicDNS:     true,
			Stack:          s.Settings().Stack,
			Defaults:       mesh.Clusters,
			ConnectTimeout: mesh.ConnectTimeout,
			KeepsCase:      s.Headers().KeepsCase,
		}, b.clusterPatches(s, cluster.AnyNameName, false))
	}}}
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
	covered := chain.SNI.Len() > 0
	for name := range chain.SNI.All() {
		covered = covered && svc.Host.Covers(model.Host(name))
	}
	if !covered {
		chain.Closed, chain.Targets = true, nil
	}
	chain.ForwardPort, chain.DynamicDNS = port, true
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
