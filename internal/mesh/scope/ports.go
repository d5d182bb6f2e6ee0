package scope

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Inbound is a port of a sidecar's workload that services lead to, and what is spoken there.
type Inbound struct {
	Port     uint16
	Protocol model.Protocol
}

// Bind is a port of a gateway's workload that services lead to by another number.
type Bind struct {
	Service uint16 // the port of the services
	Port    uint16 // of the workload
}

// PortConflict is a port of a sidecar's workload to which services lead with different protocols.
// The first one is in force.
type PortConflict struct {
	Port        uint16
	First, Next Claim
}

// Claim is what one service says of a port of a workload in its namespace.
type Claim struct {
	Kind     kinds.Kind
	Name     string
	Port     uint16 // of the service
	Protocol model.Protocol
}

// PortService is a service that leads to a port of a sidecar's workload.
type PortService struct {
	Port uint16 // of the workload
	Host model.Host
	Name string // in Istio's telemetry (model.Service.TelemetryName)
	// Stat is by which name the port's cluster stands in statistics, of the first service of a
	// port: where the mesh says so; else empty.
	Stat string
}

// target is a claim to a port of a workload.
type target struct {
	Claim
	service  *model.Service
	port     uint16
	portName string // of the service
}

// inbound returns the ports of a sidecar's workload, sorted, and the conflicts on them. Which
// services lead to a port does not matter to most proxies (portServices); only a conflict names
// them.
func inbound(all []target) (ports []Inbound, conflicts []PortConflict) {
	var first []target // of each port
	for _, t := range all {
		i := slices.IndexFunc(first, func(f target) bool { return f.port == t.port })
		switch {
		case i < 0:
			first = append(first, t)
			ports = append(ports, Inbound{t.port, t.Protocol})
		case first[i].Protocol != t.Protocol:
			conflicts = append(conflicts, PortConflict{Port: t.port, First: first[i].Claim, Next: t.Claim})
		}
	}
	slices.SortFunc(ports, func(a, b Inbound) int { return cmp.Compare(a.Port, b.Port) })
	return ports, conflicts
}

// portServices returns the services that lead to the ports of a sidecar's workload, by port, those
// of a port in their total order.
func portServices(mesh *model.MeshConfig, all []target) []PortService {
	var found []PortService
	named := map[uint16]bool{}
	for _, t := range all {
		s := PortService{Port: t.port, Host: t.service.Host, Name: t.service.TelemetryName()}
		if slices.ContainsFunc(found, func(o PortService) bool { o.Stat = ""; return o == s }) {
			continue
		}
		if !named[t.port] {
			named[t.port], s.Stat = true, mesh.InboundStatName.NameOf(t.stat())
		}
		found = append(found, s)
	}
	slices.SortStableFunc(found, func(a, b PortService) int { return cmp.Compare(a.Port, b.Port) })
	return found
}

// stat is what the claimed port's cluster is for.
func (t *target) stat() model.StatPort {
	return model.StatPort{
		Host: t.service.Host, Name: t.service.TelemetryName(), Namespace: t.service.Namespace,
		Port: t.Port, PortName: t.portName, Target: t.port,
	}
}

// binds returns the service ports that lead to another port of a gateway's workload, sorted. The
// first of several services counts.
func binds(snap *state.Snapshot, p Proxy) []Bind {
	var found []Bind
	seen := map[uint16]bool{}
	for _, t := range targets(snap, p) {
		if t.service.NoPortTranslation {
			continue
		}
		if !seen[t.Port] && t.Port != t.port {
			found = append(found, Bind{t.Port, t.port})
		}
		seen[t.Port] = true
	}
	slices.SortFunc(found, func(a, b Bind) int { return cmp.Compare(a.Service, b.Service) })
	return found
}

// targets returns the claims of services on ports of a workload, in the total order of the
// services: of those that select it, that list its address, or that select a WorkloadEntry with
// its address.
func targets(snap *state.Snapshot, p Proxy) []target {
	var found []target
	add := func(svc *model.Service, port model.ServicePort, number uint16) {
		if number != 0 && port.Protocol != model.UDP {
			found = append(found, target{Claim{svc.Kind, svc.Name, port.Port, port.Protocol}, svc, number, port.Name})
		}
	}
	workload := snap.Workload(p.Namespace, p.Name)
	for svc := range snap.ServicesSelecting(p.Namespace, p.Labels) {
		for _, port := range svc.Ports {
			number := port.Target
			if number == 0 && workload != nil {
				number = workload.Ports.Number(port.TargetName)
			}
			add(svc, port, number)
		}
	}
	if p.Address != "" && snap.ListsAddresses() {
		addListed(snap, p, add)
		addEntries(snap, p, add)
	}
	slices.SortStableFunc(found, func(a, b target) int {
		return cmp.Or(a.service.Compare(&b.service.Meta), cmp.Compare(a.service.Host, b.service.Host))
	})
	return found
}

// addListed adds what ServiceEntries say that list the address of a workload.
func addListed(snap *state.Snapshot, p Proxy, add func(*model.Service, model.ServicePort, uint16)) {
	for svc := range snap.ServicesListing(p.Namespace, p.Address) {
		for _, port := range svc.Ports {
			for i := range svc.Endpoints {
				if e := &svc.Endpoints[i]; e.Address == p.Address && e.PortName == port.Name {
					add(svc, port, e.Port)
				}
			}
		}
	}
}

// addEntries adds what services say that select a WorkloadEntry with the address of a workload.
func addEntries(snap *state.Snapshot, p Proxy, add func(*model.Service, model.ServicePort, uint16)) {
	for e := range snap.WorkloadEntriesAt(p.Namespace, p.Address) {
		for svc := range snap.ServicesSelecting(p.Namespace, e.Labels) {
			for _, port := range svc.Ports {
				add(svc, port, e.Serves(port))
			}
		}
	}
}

// BoundPort returns the port that a gateway of the class binds for a port of its services: the
// target port where the services have the port, else the port itself.
func (c *Class) BoundPort(service uint16) uint16 {
	for i := range c.Binds.Len() {
		if b := c.Binds.At(i); b.Service == service {
			return b.Port
		}
	}
	return service
}

// GatewayServer is a server of a Gateway that selects the class.
type GatewayServer struct {
	Gateway *model.Gateway
	Index   int // in the Gateway
}

// Address is where a gateway takes connections.
type Address struct {
	Port uint16 // that it binds
	Bind string // model.GatewayServer.Bind
}

// ServersOn returns the servers of the class's Gateways at an address, broken ones too, in the
// total order. The list must not be changed. The Gateways are walked once for all addresses: each
// virtual host of a gateway asks, and there may be a thousand of both.
func (s *Scope) ServersOn(at Address) []GatewayServer {
	s.classOnly()
	if s.servers == nil {
		s.servers = map[Address][]GatewayServer{}
		for g := range s.Gateways() {
			for i := range g.Servers {
				bound := s.class.addressOf(&g.Servers[i])
				s.servers[bound] = append(s.servers[bound], GatewayServer{g, i})
			}
		}
	}
	return s.servers[at]
}

func (c *Class) addressOf(server *model.GatewayServer) Address {
	return Address{Port: c.BoundPort(server.Port), Bind: server.Bind}
}
