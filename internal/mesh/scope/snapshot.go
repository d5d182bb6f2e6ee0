package scope

import (
	"iter"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// is recorded. Whether a class sees what it finds here, it has to ask (Service, IsExported,
// Applies).

// Generation returns the number of the snapshot.
func (s *Scope) Generation() uint64 { return s.snapshot.Generation }

// Mesh is the mesh configuration.
func (s *Scope) Mesh() *model.MeshConfig { return s.snapshot.Mesh }

// HasHost reports whether a service or a VirtualService has exactly this host.
func (s *Scope) HasHost(host model.Host) bool { return s.snapshot.HasHost(host) }

// Endpoints are the endpoints of a service; never nil.
func (s *Scope) Endpoints(svc *model.Service) *state.EndpointSet { return s.snapshot.Endpoints(svc) }

// ServicesOfPod returns the services that are called by pod and have an endpoint with an address
// that serves a port, in the total order.
func (s *Scope) ServicesOfPod(address string, port uint16) []*model.Service {
	return s.snapshot.ServicesOfPod(address, port)
}

// Accounts are the service accounts of those who run a service.
func (s *Scope) Accounts(svc *model.Service) []string { return s.snapshot.Accounts(svc) }

// KeysFrom returns the keys that were fetched from a URI, in their canonical form; empty if there
// are none.
func (s *Scope) KeysFrom(uri string) string {
	if set := s.snapshot.KeySet(uri); set != nil {
		return set.Keys
	}
	return ""
}

// TCPServicesOn yields the services with a port on which only the port number identifies the
// service.
func (s *Scope) TCPServicesOn(port uint16) iter.Seq[*model.Service] {
	return s.snapshot.TCPServicesOn(port)
}

// TCPServicesAfter yields the services of TCPServicesOn that come after one of them. That one need
// not exist any more.
func (s *Scope) TCPServicesAfter(port uint16, svc *model.Service) iter.Seq[*model.Service] {
	return s.snapshot.TCPServicesAfter(port, svc)
}

// TLSServicesOn yields the services with a TLS port, on which SNI identifies the service.
func (s *Scope) TLSServicesOn(port uint16) iter.Seq[*model.Service] {
	return s.snapshot.TLSServicesOn(port)
}

// ServicesByPortMatch yields the services with a port whose connections are matched without a
// virtual IP.
func (s *Scope) ServicesByPortMatch(port uint16, kind state.PortMatch) iter.Seq[*model.Service] {
	return s.snapshot.ServicesByPortMatch(port, kind)
}

// ServicesByPortMatchAfter yields the services of ServicesByPortMatch that come after one of them.
// That one need not exist any more.
func (s *Scope) ServicesByPortMatchAfter(
	port uint16, kind state.PortMatch, svc *model.Service,
) iter.Seq[*model.Service] {
	return s.snapshot.ServicesByPortMatchAfter(port, kind, svc)
}

// VirtualServicesOf yields the VirtualServices that list exactly this host, which may be a
// wildcard.
func (s *Scope) VirtualServicesOf(host model.Host) iter.Seq[*model.VirtualService] {
	return s.snapshot.VirtualServicesOf(host)
}

// VirtualServicesAt yields the VirtualServices of a gateway, by its "namespace/name".
func (s *Scope) VirtualServicesAt(gateway string) iter.Seq[*model.VirtualService] {
	return s.snapshot.VirtualServicesAt(gateway)
}

// Gateway finds a Gateway by "namespace/name", nil if there is none.
func (s *Scope) Gateway(name string) *model.Gateway { return s.snapshot.Gateway(name) }

// GatewaysWith yields the Gateways that name a credential.
func (s *Scope) GatewaysWith(credential string) iter.Seq[*model.Gateway] {
	return s.snapshot.GatewaysWith(credential)
}

// BackendTLS returns the TLS that the owner of a service demands of its callers, by port; nil if no
// BackendTLSPolicy is for it.
func (s *Scope) BackendTLS(svc *model.Service) *model.TrafficPolicy {
	if svc.Kind != kinds.Service {
		return nil
	}
	if p := s.snapshot.BackendPolicy(svc.Host); p != nil {
		return p.Policy
	}
	return nil
}

// DestinationRulesWithAny yields the DestinationRules that name credentials, once for each.
func (s *Scope) DestinationRulesWithAny() iter.Seq[*model.DestinationRule] {
	return s.snapshot.DestinationRulesWithAny()
}

// HostsForwardedBy yields the hosts to which a server may forward connections, some of them several
// times.
func (s *Scope) HostsForwardedBy(server *model.GatewayServer) iter.Seq[model.Host] {
	return func(yield func(model.Host) bool) {
		if !server.Forwards() {
			return
		}
		for _, h := range server.Hosts {
			for host := range s.snapshot.HostsUnder(h.Host) {
				if !yield(host) {
					return
				}
			}
		}
	}
}
