package compile

import (
	"cmp"
	"net"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// portSlots returns the listener of a port: for the services that share it, and for the TCP service
// that owns it (nil if none does). With interception requests have a part in it too.
func (b unitBuilder) portSlots(s *scope.Scope, port uint16, owner *model.Service, requests bool) []slot {
	switch {
	case ownsListener(s, portListener(s, port)):
		return nil
	case s.Intercepts():
		return b.interceptedSlots(s, port, owner, requests)
	case port == s.HTTPProxyPort():
		return nil
	}
	chains := b.chainsOn(s, port)
	for svc := range s.TLSServicesOn(port) {
		if seen, p := onPort(s, svc.Host, port); seen == svc && p.Protocol == model.TLS {
			chains.addTLS(svc)
		}
	}
	if owner != nil {
		chains.addTCP(owner)
	}
	if len(chains.found) == 0 {
		return nil
	}
	at := portAddress(s, port)
	return []slot{{typ: resource.Listener, name: at.name, get: func() emitted {
		return b.tcp.with(listener.TCPInput{
			Name: at.name, Bind: at.bind, Port: port, BindToPort: true, Chains: b.chains.List(chains.found),
			Common: b.common(s, model.ClientMode),
		}, b.listenerPatches(s, at.name, port, false))
	}}}
}

func portListener(s *scope.Scope, port uint16) string {
	if s.Intercepts() {
		return s.Settings().Stack.Wildcards()[0] + "_" + portText(port)
	}
	return portAddress(s, port).name
}

// portAddress returns where the calls of a workload without interception to a port come in.
func portAddress(s *scope.Scope, port uint16) egressAddress {
	if l := s.EgressPort(port); l != nil && !l.Requests {
		return addressOf(s, l)
	}
	return egressAddress{name: "127.0.0.1_" + portText(port), bind: model.OwnOutbound, toPort: true}
}

// chainBuilder gathers the filter chains of one port.
type chainBuilder struct {
	unitBuilder
	scope *scope.Scope
	port  uint16
	found []listener.Chain
	sni   map[string]bool
}

func (b unitBuilder) chainsOn(s *scope.Scope, port uint16) chainBuilder {
	return chainBuilder{unitBuilder: b, scope: s, port: port, sni: map[string]bool{}}
}

func (b *chainBuilder) addTCP(svc *model.Service) {
	vs := b.scope.VirtualService(svc.Host, b.port, scope.TCPRoutes)
	if vs == nil {
		b.found = append(b.found, b.directChain(svc, nil))
		return
	}
	for _, r := range vs.TCP {
		chain, always, ok := b.tcpRoute(string(svc.Host), vs, r, inMesh(b.port))
		if !ok {
			continue
		}
		b.found = append(b.found, chain)
		if always {
			return
		}
	}
	b.found = append(b.found, b.directChain(svc, nil))
}

// tcpRoute returns the chain of a TCP route, if one of its matches holds for the class at the entry
// point. always reports that it takes all connections.
func (b *chainBuilder) tcpRoute(
	name string, vs *model.VirtualService, r *model.TCPRoute, at entryPoint,
) (chain listener.Chain, always, ok bool) {
	var prefixes []string
	always = len(r.Matches) == 0
	for _, m := range r.Matches {
		if !applies(b.scope, vs, conditions{m.Port, m.SourceLabels, m.SourceNamespace, m.Gateways}, at) {
			continue
		}
		ok = true
		always = always || len(m.DestinationSubnets) == 0
		prefixes = append(prefixes, m.DestinationSubnets...)
	}
	if always {
		prefixes = nil
	} else if !ok {
		return chain, false, false
	}
	chain = b.routedChain(name, r.Destinations, r.Broken)
	chain.Prefixes = b.domains.List(prefixes)
	return b.lookUpAny(chain, r.Destinations), always, true
}

func (b *chainBuilder) addTLS(svc *model.Service) {
	b.addTLSRoutes(svc)
	names := []model.Host{svc.Host}
	if svc.Headless {
		names = append(names, "*."+svc.Host) // its pods
	}
	if sni := b.unclaimed(names); len(sni) > 0 {
		b.found = append(b.found, b.directChain(svc, sni))
	}
}

// addTLSRoutes adds the chains of the TLS routes for a service.
func (b *chainBuilder) addTLSRoutes(svc *model.Service) {
	if vs := b.scope.VirtualService(svc.Host, b.port, scope.TLSRoutes); vs != nil {
		for _, r := range vs.TLS {
			for _, m := range r.Matches {
				if !applies(
					b.scope, vs, conditions{m.Port, m.SourceLabels, m.SourceNamespace, m.Gateways}, inMesh(b.port),
				) {
					continue
				}
				if sni := b.unclaimed(m.SNIHosts); len(sni) > 0 {
					chain := b.routedChain(string(svc.Host), r.Destinations, r.Broken)
					chain.SNI = b.domains.List(sni)
					b.found = append(b.found, b.lookUpAny(chain, r.Destinations))
				}
			}
		}
	}
}

// unclaimed returns those of the names that no earlier chain takes. Envoy refuses a listener in
// which a match stands twice.
func (b *chainBuilder) unclaimed(hosts []model.Host) []string {
	var names []string
	for _, h := range hosts {
		if n := string(h); !b.sni[n] {
			b.sni[n] = true
			names = append(names, n)
		}
	}
	return names
}

// directChain returns the chain to a service's own cluster.
func (b *chainBuilder) directChain(svc *model.Service, sni []string) listener.Chain {
	to := listener.WeightedTarget{Cluster: pb.OutboundCluster(svc.Host, b.port, ""), Weight: 1}
	chain := listener.Chain{
		Name: string(svc.Host), SNI: b.domains.List(sni), Targets: b.targets.List([]listener.WeightedTarget{to}),
	}
	chain.ForwardPort = b.forwardPort(svc, b.port)
	chain = b.lookUp(chain, svc, b.port)
	return b.tunnelled(b.withPolicyOf(chain, svc, b.port, ""), svc, "")
}

// forwardPort returns the port at which connections go to the host that they name themselves: those
// to a wildcard's cluster, which looks names up where no original destination is known. It is 0 for
// other services.
func (b *chainBuilder) forwardPort(svc *model.Service, port uint16) uint16 {
	if b.scope.Type() == scope.Sidecar && !b.scope.Intercepts() && svc.Host.IsWildcard() &&
		svc.Resolution == model.Passthrough && b.scope.Endpoints(svc).IsEmpty() {
		return port
	}
	return 0
}

// routedChain returns the chain of a route to its weighted destinations; a closed one if the route
// is broken.
func (b *chainBuilder) routedChain(name string, destinations []model.Destination, broken string) listener.Chain {
	if broken != "" {
		return listener.Chain{Name: name, Closed: true}
	}
	var to []listener.WeightedTarget
	var forwardPort uint16
	for _, d := range destinations {
		weight := d.Weight
		if len(destinations) == 1 {
			weight = 1
		}
		if weight > 0 {
			to = append(to, listener.WeightedTarget{Cluster: b.clusterOf(d), Weight: weight})
			if svc, port := b.resolve(d); svc != nil {
				forwardPort = cmp.Or(forwardPort, b.forwardPort(svc, port))
			}
		}
	}
	if len(to) == 0 {
		return listener.Chain{Name: name, Closed: true}
	}
	chain := listener.Chain{Name: name, Targets: b.targets.List(to), ForwardPort: forwardPort}
	return b.withDestinationPolicy(chain, destinations)
}

// clusterOf returns the cluster of a destination. One without a host closes its connections.
func (b *chainBuilder) clusterOf(d model.Destination) string {
	if d.Host == "" {
		return cluster.BlackHoleName
	}
	host := d.Host
	svc, port := b.resolve(d)
	if svc != nil {
		host = svc.Host
	}
	return pb.OutboundCluster(host, port, d.Subset)
}

// withDestinationPolicy adds what the first destination's policy says of connections. A chain can
// follow only one policy. Of several destinations the tunnel is that of the first host, since it
// holds for all of them.
func (b *chainBuilder) withDestinationPolicy(chain listener.Chain, destinations []model.Destination) listener.Chain {
	first := destinations[0]
	svc, port := b.resolve(first)
	if svc == nil {
		return chain
	}
	chain = b.withPolicyOf(chain, svc, port, first.Subset)
	if len(destinations) > 1 {
		return b.tunnelled(chain, svc, "")
	}
	return b.tunnelled(chain, svc, first.Subset)
}

// tunnelled sends a chain's connections through a service, or a subset of it, if its rule says that
// it is a proxy.
func (b *chainBuilder) tunnelled(chain listener.Chain, svc *model.Service, subset string) listener.Chain {
	t := tunnelOf(b.scope.DestinationRule(svc), subset)
	switch {
	case t == nil:
	case t.Port == 0:
		chain.Closed = true
	default:
		chain.Tunnel = listener.Tunnel{Target: net.JoinHostPort(t.Host, portText(t.Port)), Post: t.Post}
	}
	return chain
}

// tunnelOf returns the tunnel of a host or of a subset, which takes none over from its host. The
// rule may be nil.
func tunnelOf(rule *model.DestinationRule, subset string) *model.Tunnel {
	if rule == nil {
		return nil
	}
	policy := rule.Policy
	if subset != "" {
		own, _ := rule.Subset(subset)
		policy = own.Policy
	}
	if policy == nil {
		return nil
	}
	return policy.Tunnel
}

// withPolicyOf is withDestinationPolicy for a service's port, or a subset of it.
func (b *chainBuilder) withPolicyOf(
	chain listener.Chain, svc *model.Service, port uint16, subsetName string,
) listener.Chain {
	var all, subset *model.TrafficPolicy
	if rule := b.scope.DestinationRule(svc); rule != nil {
		sub, _ := rule.Subset(subsetName)
		all, subset = rule.Policy, sub.Policy
	}
	if p, has := svc.Port(port); has {
		chain.StatName = outboundStat(b.scope, svc, p, subsetName)
	}
	policy := cluster.Effective(all, subset, b.scope.BackendTLS(svc), port)
	chain.Bytes = b.saysBytes(svc, port, policy.TLS)
	return withPolicy(chain, policy)
}

// saysBytes reports whether connections to a port have to say that they carry bytes: the port is
// for requests, or does not say what it speaks, and is called in TLS of the mesh.
func (b *chainBuilder) saysBytes(svc *model.Service, port uint16, tls *model.ClientTLS) bool {
	if p, has := svc.Port(port); !has || p.Protocol != model.Auto && !p.Protocol.IsHTTP() {
		return false
	}
	return tls == nil && b.scope.CallsInMeshTLS() || tls != nil && tls.Mode == model.IstioMutual
}

func withPolicy(chain listener.Chain, policy model.TrafficPolicy) listener.Chain {
	if pool := policy.Pool; pool != nil {
		chain.IdleTimeout, chain.MaxDuration = pool.TCPIdleTimeout, pool.MaxConnectionDuration
	}
	chain.HashSource = policy.LB != nil && policy.LB.Hash != nil && policy.LB.Hash.SourceIP
	return chain
}

// resolve returns the service that serves a destination, and the port there.
func (b *chainBuilder) resolve(d model.Destination) (*model.Service, uint16) {
	return servedBy(b.scope, d, b.port)
}
