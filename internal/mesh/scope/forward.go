package scope

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// ForwardingServers yields the servers of the class's gateways that hand connections of the mesh on (AUTO_PASSTHROUGH).
func (s *Scope) ForwardingServers() iter.Seq[*model.GatewayServer] {
	return func(yield func(*model.GatewayServer) bool) {
		if s.class.Type != Router {
			return
		}
		for g := range s.world.ForwardingGateways() {
			if !s.Applies(g) {
				continue
			}
			for i := range g.Servers {
				if server := &g.Servers[i]; server.Forwards() && !yield(server) {
					return
				}
			}
		}
	}
}

// Forwarded is the service that the class's gateways hand connections of the mesh on to by a host: the first visible claimant,
// be there routes to it or not; nil if there is none, or it is not of the mesh.
func (s *Scope) Forwarded(host model.Host) *model.Service {
	for server := range s.ForwardingServers() {
		if svc := s.ForwardedBy(server, host); svc != nil {
			return svc
		}
	}
	return nil
}

// ForwardedBy is the service that one server hands connections on to by a host.
func (s *Scope) ForwardedBy(server *model.GatewayServer, host model.Host) *model.Service {
	if !server.Forwards() || host.IsWildcard() {
		return nil
	}
	svc := first(s.claimsTo(host), func(claim *model.Service) bool {
		s.evaluated()
		return s.IsExported(claim.ExportTo, claim.Namespace)
	})
	if svc == nil || svc.External || !serves(server, svc) {
		return nil
	}
	return svc
}

func serves(server *model.GatewayServer, svc *model.Service) bool {
	return slices.ContainsFunc(server.Hosts, func(h model.ScopedHost) bool { return h.Covers(svc.Namespace, svc.Host) })
}

// forwardedHosts yields the hosts that the class's gateways may hand connections on to, some of them several times.
func (s *Scope) forwardedHosts() iter.Seq[model.Host] {
	return func(yield func(model.Host) bool) {
		for server := range s.ForwardingServers() {
			for host := range s.HostsForwardedBy(server) {
				if !yield(host) {
					return
				}
			}
		}
	}
}
