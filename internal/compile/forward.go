package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
)

// A server with AUTO_PASSTHROUGH forwards connections of the mesh in the TLS that their proxies
// began. The server name (SNI) names the destination. Each allowed destination has a filter chain
// for that name, and a cluster with the same name, so a name that a client makes up leads nowhere.
//
// The destination alone checks who calls. So the chains take only connections that say they are in
// TLS of the mesh, and the clusters have only endpoints that take it.

// forward is a destination that connections of the mesh are forwarded to: a service port, or a
// subset of it.
type forward struct {
	port   model.ServicePort
	subset model.Subset // the zero Subset is all endpoints
	name   string       // the server name, and the cluster's name
}

// forwardsOf returns the destinations of a service. It leaves out those that no server name can
// stand for.
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

// forwardSlots returns the clusters that forward a host's connections, with their endpoints. With
// endpointsOnly it returns the endpoints alone.
func (b unitBuilder) forwardSlots(s *scope.Scope, host model.Host, endpointsOnly bool) []slot {
	svc := s.Forwarded(host)
	if svc == nil {
		return nil
	}
	rule := s.DestinationRule(svc)
	clusters := clusterBuilder{unitBuilder: b, scope: s, service: svc, endpointsOnly: endpointsOnly}
	for _, f := range forwardsOf(svc, rule) {
		in := b.outbound(s, svc, f.port, rule)
		in.Forwarded, in.Subset, in.SubsetPolicy = true, f.subset.Name, f.subset.Policy
		in.Protocol, in.Gateway, in.Secured, in.Backend = model.TCP, false, false, nil // the bytes are opaque
		in.UpgradeHTTP2 = false
		in.StatName = outboundStat(s, svc, f.port, f.subset.Name)
		if in.Resolution == model.Passthrough {
			in.Resolution, in.ForwardProxy = model.EDS, false
		}
		clusters.add(f.port, in, f.subset.Labels)
	}
	return clusters.slots
}

// addForwards adds a chain for each destination of a server.
func (b *serverChainBuilder) addForwards(sv server, rest listener.Chain) {
	for host := range b.scope.HostsForwardedBy(sv.GatewayServer) {
		svc := b.scope.ForwardedBy(sv.GatewayServer, host)
		if svc == nil {
			continue
		}
		rule := b.scope.DestinationRule(svc)
		for _, f := range forwardsOf(svc, rule) {
			if sni := b.unclaimed([]model.Host{model.Host(f.name)}); len(sni) > 0 {
				chain := b.forward(f, rule, sni)
				chain.StatName = outboundStat(b.scope, svc, f.port, f.subset.Name)
				b.built = append(b.built, listener.ServerChain{Chain: chain})
			}
		}
	}
	b.built = append(b.built, listener.ServerChain{Chain: rest})
}

func (b *serverChainBuilder) forward(f forward, rule *model.DestinationRule, sni []string) listener.Chain {
	to := listener.WeightedTarget{Cluster: f.name, Weight: 1}
	chain := listener.Chain{
		Name:    f.name,
		SNI:     b.domains.List(sni),
		Targets: b.targets.List([]listener.WeightedTarget{to}),
		OfMesh:  true,
	}
	if rule == nil {
		return chain
	}
	return withPolicy(chain, cluster.Effective(rule.Policy, f.subset.Policy, nil, f.port.Port))
}

// eachForwarded calls f with the hosts to which a Gateway forwards connections.
func eachForwarded(s *scope.Scope, g *model.Gateway, f func(model.Host)) {
	for i := range g.Servers {
		for host := range s.HostsForwardedBy(&g.Servers[i]) {
			f(host)
		}
	}
}
