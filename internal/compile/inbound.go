package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// inboundPorts returns the workload's own ports: those of its services, or of the Sidecar's
// ingress. For a port that several services lead to, the first service decides.
func inboundPorts(s *scope.Scope, report func(source.Problem)) []inbound {
	var ports []inbound
	if sidecar := s.Sidecar(); sidecar != nil && (len(sidecar.Ingress) > 0 || sidecar.IngressClosed) {
		for _, in := range sidecar.Ingress {
			if !slices.ContainsFunc(ports, func(o inbound) bool { return o.port == in.Port }) {
				port := inbound{
					port: in.Port, protocol: in.Protocol, address: in.EndpointAddress, endpointPort: in.EndpointPort,
					pool: s.InboundPool(in.Port), bind: in.Bind, ownPort: in.OwnPort, tls: in.TLS,
					stat: ingressStat(s, sidecar, &in),
				}
				if port.tls != nil && !port.endsTLS(s) {
					report(ingressWithMeshTLS(sidecar, in.Port, s.TakesMeshTLS()))
				}
				ports = append(ports, port)
			}
		}
		return ports
	}
	address := processAddress(s)
	for in := range s.Inbound().All() {
		ports = append(ports, inbound{
			port: in.Port, protocol: in.Protocol, address: address, endpointPort: in.Port,
			pool: s.InboundPool(in.Port), stat: inboundStat(s, in.Port),
		})
	}
	for conflict := range s.PortConflicts().All() {
		report(inboundConflict(s.Namespace(), conflict))
	}
	return ports
}

// processAddress returns where the process of an intercepted workload listens: empty for where a
// connection goes, or the loopback address if the mesh says so.
func processAddress(s *scope.Scope) string {
	switch {
	case !s.Intercepts() || !s.Mesh().LocalhostInbound:
		return ""
	case s.Settings().Stack == model.IPv6Stack:
		return "::1"
	}
	return model.OwnApp
}

func inboundConflict(namespace string, c scope.PortConflict) source.Problem {
	owner := func(c scope.Claim) source.Key { return source.Key{Kind: c.Kind, Namespace: namespace, Name: c.Name} }
	port := portText(c.Next.Port)
	return source.Problem{
		Severity: source.Warning, Object: owner(c.Next), Path: "spec.ports", Value: port,
		Message: fmt.Sprintf("port %s leads to port %s of workloads as %s; port %s of %s does so as %s and comes "+
			"first: that is how they take it",
			port, portText(c.Port), c.Next.Protocol, portText(c.First.Port), owner(c.First), c.First.Protocol),
		Want: "one protocol for each port of a workload", Code: source.InboundConflict,
	}
}

// inbound is one of the workload's own ports, and where its process listens.
type inbound struct {
	port         uint16
	protocol     model.Protocol
	address      string // where its process listens; empty: where the connection goes
	endpointPort uint16
	pool         *model.ConnectionPool // to its process; nil for no limits
	stat         string                // its name in statistics; empty for the cluster's
	bind         string                // an IP; empty: the workload's own address
	ownPort      bool                  // it has a listener of its own where calls are redirected
	tls          *model.ServerTLS      // of clients outside of the mesh; nil for none
}

// hasListener reports whether the port has a listener of its own.
func (in inbound) hasListener(s *scope.Scope) bool { return in.ownPort || !s.Intercepts() }

// takesMeshTLS reports whether connections to the port may be in mutual TLS of the mesh.
func (in inbound) takesMeshTLS(s *scope.Scope) bool {
	return s.TakesMeshTLS() && s.MTLSMode(in.port) != model.MTLSDisable
}

// endsTLS reports whether the port takes TLS of clients outside of the mesh, where the Sidecar asks
// for it: beside TLS of the mesh, nothing would tell the two apart. In the listener that takes all
// calls it needs an agent, which reads the files: Envoy refuses the whole listener for one that is
// missing.
func (in inbound) endsTLS(s *scope.Scope) bool {
	return !in.takesMeshTLS(s) && (s.TakesMeshTLS() || in.hasListener(s))
}

// ingressWithMeshTLS does not name the class, since classes of other namespaces that start from it
// take the problem over.
func ingressWithMeshTLS(sidecar *model.Sidecar, port uint16, hasAgent bool) source.Problem {
	p := source.Problem{
		Severity: source.Error, Path: "spec.ingress", Value: portText(port),
		Message: "has tls, but takes mutual TLS of the mesh on some workloads; these take nothing else on this port",
		Want:    "a PeerAuthentication with mode DISABLE for this port of the workloads",
	}
	if !hasAgent {
		p.Message = "has tls, but some workloads have no agent that reads its files (" + noAgent +
			"); the port refuses all calls there"
		p.Want = "workloads whose proxies have an agent, or captureMode NONE"
	}
	return problemOf(&sidecar.Meta, p)
}

func (in inbound) listenerPort(s *scope.Scope) listener.InboundPort {
	port := listener.InboundPort{
		Name:     "inbound_0.0.0.0_" + portText(in.port),
		Port:     in.port,
		Protocol: in.protocol,
		Cluster:  cluster.InboundName(in.port),
		StatName: in.stat,
		Refuses:  s.Refuses(in.port),
		TakesTLS: in.takesMeshTLS(s),
	}
	switch {
	case in.tls == nil:
	case in.endsTLS(s):
		port.TLS, port.FilesByAgent = in.tls, s.Settings().Agent
	default:
		port.Refuses = true
	}
	return port
}

func (b unitBuilder) inboundCluster(s *scope.Scope, in inbound) slot {
	return slot{typ: resource.Cluster, name: cluster.InboundName(in.port), get: func() emitted {
		input := cluster.InboundInput{
			Port:           in.port,
			Address:        in.address,
			EndpointPort:   in.endpointPort,
			Protocol:       in.protocol,
			Pool:           in.pool,
			StatName:       in.stat,
			Defaults:       s.Mesh().Clusters,
			ConnectTimeout: s.Mesh().ConnectTimeout,
			KeepsCase:      s.Headers().KeepsCase,
			Intercepted:    s.Intercepts(),
			Stack:          s.Settings().Stack,
			Services:       b.servicesOf(s, in.port),
		}
		if in.hasListener(s) && input.Address == "" {
			input.Address = model.OwnApp // where a connection goes is the listener itself
		}
		return b.inbound.with(input, b.clusterPatches(s, cluster.InboundName(in.port), true))
	}}
}

// servicesOf returns the services that lead to one of the workload's own ports, for a proxy that
// shows them.
func (b unitBuilder) servicesOf(s *scope.Scope, port uint16) *model.List[cluster.NamedService] {
	if !s.Settings().IstioFilters {
		return nil
	}
	var found []cluster.NamedService
	for svc := range s.PortServices().All() {
		if svc.Port == port {
			found = append(found, cluster.NamedService{Host: svc.Host, Service: s.Namespace() + "/" + svc.Name})
		}
	}
	return b.services.List(found)
}

// inboundPair returns what a port with a listener of its own has: its cluster, and the listener.
func (b unitBuilder) inboundPair(s *scope.Scope, in inbound) []slot {
	port := in.listenerPort(s)
	return []slot{b.inboundCluster(s, in), {typ: resource.Listener, name: port.Name, get: func() emitted {
		return b.inbounds.with(listener.InboundInput{
			InboundPort: port,
			Bind:        cmp.Or(in.bind, model.OwnPod),
			AuthFilters: b.authFiltersOf(s),
			Common:      b.common(s, model.ServerMode),
		}, b.listenerPatches(s, port.Name, in.port, true))
	}}}
}
