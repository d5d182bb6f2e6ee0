package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
)

// A server with AUTO_PASSTHROUGH hands connections of the mesh on, in the TLS that their proxies began: the server name in their
// hello names the destination. Each destination that it may hand on to has a filter chain for that name, and a cluster that has it
// too: no name that a client makes up leads elsewhere. Who calls is checked by the destination alone, so the chains are for
// connections that say they are in TLS of the mesh, and of the endpoints those take part that take it.

// forward is a destination that connections of the mesh are handed on to: a service port, or a subset of it.
type forward struct {
	port   model.ServicePort
	subset model.Subset // without a name: all endpoints
	name   string       // of the server asked for, and of the cluster
}

// forwardsOf are the destinations of a service, without those that no server name can stand for.
func forwardsOf(svc *model.Service, rule *model.DestinationRule) []forward {
	var found []forward
	add := func(p model.ServicePort, sub model.Subset) {
		if name := cluster.ServerName(p.Port, sub.Name, svc.Host); name != "" {
			found = append(found, forward{port: p, subset: sub, name: name})
		}
	}
	for _, p := range svc.Ports {
		if p.Protocol == model.UDP {
			continue
		}
		add(p, model.Subset{})
		if rule != nil {
			for _, sub := range rule.Subsets {
				add(p, sub)
			}
		}
	}
	return found
}

// forwardSlots are the clusters by which a host's connections are handed on, with their endpoints, or with endpointsOnly those
// alone.
func (c compiler) forwardSlots(s *scope.Scope, host model.Host, endpointsOnly bool) []slot {
	svc := s.Forwarded(host)
	if svc == nil {
		return nil
	}
	rule := s.DestinationRule(svc)
	var slots []slot
	for _, f := range forwardsOf(svc, rule) {
		takes := f.subset.Labels.With(model.TLSModeLabel, model.TLSModeIstio)
		in := c.outbound(s, svc, f.port, rule)
		in.Forwarded, in.Subset, in.SubsetPolicy = true, f.subset.Name, f.subset.Policy
		in.Protocol, in.Gateway, in.Secured = model.TCP, false, false // nobody looks inside
		in.Endpoints = c.dnsEndpoints(svc, f.port, takes)
		if in.Resolution == model.Passthrough {
			in.Resolution, in.ForwardProxy = model.EDS, false
		}
		slots = c.clusterPair(slots, s, svc, f.port, in, takes, endpointsOnly)
	}
	return slots
}

// addForwards adds a door for each destination of a server.
func (b *doorBuilder) addForwards(sv server, rest listener.Chain) {
	for host := range b.scope.HostsForwardedBy(sv.GatewayServer) {
		svc := b.scope.ForwardedBy(sv.GatewayServer, host)
		if svc == nil {
			continue
		}
		rule := b.scope.DestinationRule(svc)
		for _, f := range forwardsOf(svc, rule) {
			if sni := b.fresh([]model.Host{model.Host(f.name)}); len(sni) > 0 {
				b.doors = append(b.doors, listener.Door{Chain: b.forward(f, rule, sni)})
			}
		}
	}
	b.doors = append(b.doors, listener.Door{Chain: rest})
}

func (b *doorBuilder) forward(f forward, rule *model.DestinationRule, sni []string) listener.Chain {
	to := listener.WeightedTarget{Cluster: f.name, Weight: 1}
	chain := listener.Chain{Name: f.name, SNI: b.domains.List(sni), Targets: b.targets.List([]listener.WeightedTarget{to}), OfMesh: true}
	if rule == nil {
		return chain
	}
	return withPolicy(chain, cluster.Effective(rule.Policy, f.subset.Policy, f.port.Port))
}

// addForwarded adds the hosts that a server of a Gateway hands connections on to.
func addForwarded(s *scope.Scope, server *model.GatewayServer, units map[unit]bool) {
	for host := range s.HostsForwardedBy(server) {
		units[unit{kind: unitHost, host: host}] = true
	}
}

// forwards adds the ports of gateways that hand connections on to hosts which the delta touches.
func (m *impact) forwards(s *scope.Scope, units map[unit]bool) {
	for sv := range s.ForwardingServers() {
		if m.touches(sv.Hosts) {
			units[unit{kind: unitGateway, port: s.BoundPort(sv.Port)}] = true
		}
	}
}

// touches tells whether the delta touches one of the hosts.
func (m *impact) touches(hosts []model.ScopedHost) bool {
	for touched := range m.hosts {
		for _, h := range hosts {
			if h.Host.Covers(touched) {
				return true
			}
		}
	}
	return false
}
