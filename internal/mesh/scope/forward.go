package scope

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// ForwardingServers yields the AUTO_PASSTHROUGH servers of the class's gateways, which forward
// connections of the mesh by SNI.
func (s *Scope) ForwardingServers() iter.Seq[*model.GatewayServer] {
	return func(yield func(*model.GatewayServer) bool) {
		if s.class.Type != Router {
			return
		}
		for g := range s.snapshot.ForwardingGateways() {
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

// Forwarded returns the service to which the class's gateways forward connections for a host: the
// first visible claimant. Routes play no part. It is nil if there is none or it is external.
func (s *Scope) Forwarded(host model.Host) *model.Service {
	for server := range s.ForwardingServers() {
		if svc := s.ForwardedBy(server, host); svc != nil {
			return svc
		}
	}
	return nil
}

// ForwardedBy returns the service to which one server forwards connections for a host.
func (s *Scope) ForwardedBy(server *model.GatewayServer, host model.Host) *model.Service {
	if !server.Forwards() || host.IsWildcard() {
		return nil
	}
	svc := firstWhere(s.claimsTo(host), func(claim *model.Service) bool {
		s.evaluated()
		return s.IsExported(claim.ExportTo, claim.Namespace)
	})
	if svc == nil || svc.External || svc.OwnMachine || !serves(server, svc) {
		return nil
	}
	return svc
}

func serves(server *model.GatewayServer, svc *model.Service) bool {
	return slices.ContainsFunc(server.Hosts, func(h model.ScopedHost) bool { return h.Covers(svc.Namespace, svc.Host) })
}

// forwardedHosts yields the hosts that the class's gateways may forward to, some of them several
// times.
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
