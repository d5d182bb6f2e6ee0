package scope

import (
	"cmp"
	"iter"
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

// target is a claim to a port of a workload.
type target struct {
	Claim
	service *model.Service
	port    uint16
}

// inbound returns the ports of a sidecar's workload, sorted, and the conflicts on them. Which
// services lead to a port does not matter to the proxy; only a conflict names them.
func inbound(snap *state.Snapshot, p Proxy) (ports []Inbound, conflicts []PortConflict) {
	first := map[uint16]Claim{}
	for t := range targets(snap, p) {
		of, contested := first[t.port]
		if !contested {
			first[t.port] = t.Claim
			ports = append(ports, Inbound{t.port, t.Protocol})
		} else if of.Protocol != t.Protocol {
			conflicts = append(conflicts, PortConflict{Port: t.port, First: of, Next: t.Claim})
		}
	}
	slices.SortFunc(ports, func(a, b Inbound) int { return cmp.Compare(a.Port, b.Port) })
	return ports, conflicts
}

// binds returns the service ports that lead to another port of a gateway's workload, sorted. The
// first of several services counts.
func binds(snap *state.Snapshot, p Proxy) []Bind {
	var found []Bind
	seen := map[uint16]bool{}
	for t := range targets(snap, p) {
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

// targets yields the claims of services on ports of a workload, in the total order of the services:
// of those that select it, that list its address, or that select a WorkloadEntry with its address.
func targets(snap *state.Snapshot, p Proxy) iter.Seq[target] {
	var found []target
	add := func(svc *model.Service, port model.ServicePort, number uint16) {
		if number != 0 && port.Protocol != model.UDP {
			found = append(found, target{Claim{svc.Kind, svc.Name, port.Port, port.Protocol}, svc, number})
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
	if p.Address != "" {
		addListed(snap, p, add)
		addEntries(snap, p, add)
	}
	slices.SortStableFunc(found, func(a, b target) int {
		return cmp.Or(a.service.Compare(&b.service.Meta), cmp.Compare(a.service.Host, b.service.Host))
	})
	return slices.Values(found)
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
	for b := range c.Binds.All() {
		if b.Service == service {
			return b.Port
		}
	}
	return service
}
