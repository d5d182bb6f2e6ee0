package view

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// httpProxyTable is Istio's name of the route table of the HTTP proxy port.
const httpProxyTable = "http_proxy"

// own are the slots of unitOwn.
func (c compiler) own(s *scope.Scope, report func(source.Problem)) []slot {
	mesh := s.World.Mesh
	slots := []slot{
		{typ: Cluster, name: cluster.BlackHoleName, get: c.blackHole},
		{typ: Cluster, name: cluster.PassthroughName, get: func() *Resource {
			return c.passthrough.get(cluster.PassthroughInput{ForwardProxy: true, ConnectTimeout: mesh.ConnectTimeout})
		}},
	}
	slots = append(slots, c.inboundSlots(s, report)...)
	port := s.HTTPProxyPort()
	if port == 0 {
		return slots
	}
	name := "127.0.0.1_" + portText(port)
	return append(slots,
		slot{typ: Listener, name: name, get: func() *Resource {
			return c.proxies.get(listener.HTTPInput{
				Name: name, Bind: model.OwnOutbound, Port: port, BindToPort: true, RouteTable: httpProxyTable,
				ProxyUnknown: true, Common: c.of(mesh).listeners(s.Class.Settings.HTTP10),
			})
		}},
		slot{typ: Route, name: httpProxyTable, head: func() []byte { return tableHead(route.TableInput{Name: httpProxyTable}) }},
		slot{typ: Route, table: httpProxyTable, name: fallbackName(s), get: func() *Resource {
			return c.fallbacks.get(route.FallbackInput{RegistryOnly: s.RegistryOnly()})
		}},
	)
}

func fallbackName(s *scope.Scope) string {
	if s.RegistryOnly() {
		return "block_all"
	}
	return "allow_any"
}

func tableHead(in route.TableInput) []byte {
	head, err := pb.Marshal(route.Table(in))
	if err != nil {
		return nil
	}
	return head
}

// inboundSlots are the listeners on the workload's own ports: those of its services, or of the Sidecar's ingress. A port that
// several services lead to is as the first of them says.
func (c compiler) inboundSlots(s *scope.Scope, report func(source.Problem)) []slot {
	var slots []slot
	if s.Sidecar != nil && (len(s.Sidecar.Ingress) > 0 || s.Sidecar.IngressClosed) {
		for _, in := range s.Sidecar.Ingress {
			slots = append(slots, c.inboundPair(s, inbound{in.Port, in.Protocol, in.Name, in.EndpointAddress, in.EndpointPort})...)
		}
		return slots
	}
	taken := map[uint16]scope.Target{}
	for t := range s.Class.Targets.All() {
		first, contested := taken[t.Port]
		if !contested {
			taken[t.Port] = t
			slots = append(slots, c.inboundPair(s, inbound{t.Port, t.Protocol, string(t.Host), model.OwnApp, t.Port})...)
		} else if first.Protocol != t.Protocol {
			report(inboundClash(t, first))
		}
	}
	return slots
}

func inboundClash(t, first scope.Target) source.Problem {
	return source.Problem{
		Severity: source.Warning, Object: t.Owner, Path: "spec.ports", Value: portText(t.Service),
		Message: fmt.Sprintf("port %s leads to port %s of workloads as %s; port %s of %s does so as %s and comes first: that is how they take it",
			portText(t.Service), portText(t.Port), t.Protocol, portText(first.Service), first.Owner, first.Protocol),
		Want: "one protocol for each port of a workload",
	}
}

// inbound is a port of the workload's own, and where its process listens.
type inbound struct {
	port         uint16
	protocol     model.Protocol
	stat         string
	address      string
	endpointPort uint16
}

func (c compiler) inboundPair(s *scope.Scope, in inbound) []slot {
	name, to := "inbound_0.0.0.0_"+portText(in.port), cluster.InboundName(in.port)
	return []slot{
		{typ: Cluster, name: to, get: func() *Resource {
			return c.inbound.get(cluster.InboundInput{
				Port: in.port, Address: in.address, EndpointPort: in.endpointPort, Protocol: in.protocol, ConnectTimeout: s.World.Mesh.ConnectTimeout,
			})
		}},
		{typ: Listener, name: name, get: func() *Resource {
			return c.inbounds.get(listener.InboundInput{
				Name: name, Bind: model.OwnPod, Port: in.port, Protocol: in.protocol, Cluster: to, StatName: in.stat, Refuses: s.Refuses(in.port),
				Common: c.of(s.World.Mesh).listeners(s.Class.Settings.HTTP10),
			})
		}},
	}
}

// clusterSlots are the clusters of a host with their endpoints, or with endpointsOnly those alone.
func (c compiler) clusterSlots(s *scope.Scope, host model.Host, endpointsOnly bool) []slot {
	svc := s.Service(host)
	if svc == nil {
		return nil
	}
	rule := s.DestinationRule(svc)
	var slots []slot
	for _, p := range svc.Ports {
		if p.Protocol == model.UDP {
			continue
		}
		in := c.outbound(s, svc, p, rule)
		slots = c.clusterPair(slots, s, svc, p, in, model.Labels{}, endpointsOnly)
		if rule == nil {
			continue
		}
		for _, sub := range rule.Subsets {
			subIn := in
			subIn.Subset, subIn.SubsetPolicy = sub.Name, sub.Policy
			subIn.Endpoints = c.dnsEndpoints(svc, p, sub.Labels)
			slots = c.clusterPair(slots, s, svc, p, subIn, sub.Labels, endpointsOnly)
		}
	}
	return slots
}

func (c compiler) outbound(s *scope.Scope, svc *model.Service, p model.ServicePort, rule *model.DestinationRule) cluster.OutboundInput {
	in := cluster.OutboundInput{
		Host: svc.Host, Port: p.Port, Protocol: p.Protocol, Resolution: svc.Resolution, External: svc.External,
		Gateway: s.Class.Type == scope.Router && p.Protocol == model.Auto,
		Service: serviceName(svc), ConnectTimeout: s.World.Mesh.ConnectTimeout,
		Endpoints: c.dnsEndpoints(svc, p, model.Labels{}),
	}
	if svc.Resolution == model.Passthrough {
		if s.World.Endpoints(svc).IsEmpty() {
			in.ForwardProxy = true
		} else {
			in.Resolution = model.EDS
		}
	}
	if rule != nil {
		in.Policy, in.Rule = rule.Policy, rule.Namespace+"/"+rule.Name
	}
	return in
}

func serviceName(svc *model.Service) string {
	if svc.Kind == source.ServiceEntry {
		return svc.Namespace + "/" + string(svc.Host)
	}
	return svc.Namespace + "/" + svc.Name
}

// dnsEndpoints are the names to look up of a service that is resolved by DNS: they stand in the cluster itself.
func (c compiler) dnsEndpoints(svc *model.Service, p model.ServicePort, subset model.Labels) *model.List[model.Endpoint] {
	if svc.Resolution != model.StrictDNS && svc.Resolution != model.LogicalDNS {
		return nil
	}
	var found []model.Endpoint
	for _, e := range svc.Endpoints {
		if e.PortName == p.Name && subset.Selects(e.Labels) {
			found = append(found, model.Endpoint{Address: e.Address, Port: e.Port, Weight: e.Weight, Locality: e.Locality}) // all that shows
		}
	}
	return c.endpoints.List(found)
}

// clusterPair adds a cluster and, if its endpoints are pushed, their assignment.
func (c compiler) clusterPair(slots []slot, s *scope.Scope, svc *model.Service, p model.ServicePort, in cluster.OutboundInput, subset model.Labels, endpointsOnly bool) []slot {
	r := c.clusters.get(in)
	if r == nil {
		return slots
	}
	if !endpointsOnly {
		slots = append(slots, slot{typ: Cluster, name: r.name, get: func() *Resource { return r }})
	}
	if !r.eds {
		return slots
	}
	return append(slots, slot{typ: Endpoint, name: r.name, get: func() *Resource {
		return c.assignments.get(assignmentKey{cluster: r.name, list: c.groups.get(s.World, svc, p.Name, subset)})
	}})
}
