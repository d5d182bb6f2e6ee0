package scope

import (
	"iter"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// What a Scope says of its world is the same for every class, be it for them or not: nothing of it
// is recorded. Whether a class sees what it finds here, it has to ask (Service, IsExported,
// Applies).

// Generation is the number of the world.
func (s *Scope) Generation() uint64 { return s.world.Generation }

// Mesh is the mesh configuration.
func (s *Scope) Mesh() *model.MeshConfig { return s.world.Mesh }

// Names tells whether some service or VirtualService has exactly this host.
func (s *Scope) Names(host model.Host) bool { return s.world.Names(host) }

// Endpoints are the endpoints of a service; never nil.
func (s *Scope) Endpoints(svc *model.Service) *state.EndpointSet { return s.world.Endpoints(svc) }

// Accounts are the service accounts of those who run a service.
func (s *Scope) Accounts(svc *model.Service) []string { return s.world.Accounts(svc) }

// ServicesAt yields the services that have a virtual IP and a port, which is not one of UDP.
func (s *Scope) ServicesAt(address string, port uint16) iter.Seq[*model.Service] {
	return s.world.ServicesAt(address, port)
}

// TCPServicesOn yields the services that have a port whose connections nothing but the port tells
// apart.
func (s *Scope) TCPServicesOn(port uint16) iter.Seq[*model.Service] {
	return s.world.TCPServicesOn(port)
}

// TCPServicesAfter yields those of TCPServicesOn that come after a service of their kind, be that
// still there or not.
func (s *Scope) TCPServicesAfter(port uint16, svc *model.Service) iter.Seq[*model.Service] {
	return s.world.TCPServicesAfter(port, svc)
}

// TLSServicesOn yields the services that have a port with TLS, whose connections SNI tells apart.
func (s *Scope) TLSServicesOn(port uint16) iter.Seq[*model.Service] {
	return s.world.TLSServicesOn(port)
}

// LooseServicesOn yields the services with a port whose connections no virtual IP tells from others
// on it.
func (s *Scope) LooseServicesOn(port uint16, kind state.Loose) iter.Seq[*model.Service] {
	return s.world.LooseServicesOn(port, kind)
}

// LooseServicesAfter yields those of LooseServicesOn that come after a service of their kind, be
// that still there or not.
func (s *Scope) LooseServicesAfter(port uint16, kind state.Loose, svc *model.Service) iter.Seq[*model.Service] {
	return s.world.LooseServicesAfter(port, kind, svc)
}

// VirtualServicesOf yields the VirtualServices that list exactly this host, which may be a
// wildcard.
func (s *Scope) VirtualServicesOf(host model.Host) iter.Seq[*model.VirtualService] {
	return s.world.VirtualServicesOf(host)
}

// VirtualServicesAt yields the VirtualServices of a gateway, by its "namespace/name".
func (s *Scope) VirtualServicesAt(gateway string) iter.Seq[*model.VirtualService] {
	return s.world.VirtualServicesAt(gateway)
}

// Gateway finds a Gateway by "namespace/name", nil if there is none.
func (s *Scope) Gateway(name string) *model.Gateway { return s.world.Gateway(name) }

// GatewaysWith yields the Gateways that name a credential.
func (s *Scope) GatewaysWith(credential string) iter.Seq[*model.Gateway] {
	return s.world.GatewaysWith(credential)
}

// DestinationRulesWithAny yields the DestinationRules that name credentials, once for each.
func (s *Scope) DestinationRulesWithAny() iter.Seq[*model.DestinationRule] {
	return s.world.DestinationRulesWithAny()
}

// HostsForwardedBy yields the hosts that a server may hand connections on to, some of them several
// times.
func (s *Scope) HostsForwardedBy(server *model.GatewayServer) iter.Seq[model.Host] {
	return func(yield func(model.Host) bool) {
		if !server.Forwards() {
			return
		}
		for _, h := range server.Hosts {
			for host := range s.world.HostsUnder(h.Host) {
				if !yield(host) {
					return
				}
			}
		}
	}
}
