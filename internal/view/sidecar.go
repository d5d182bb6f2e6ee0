package view

import (
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
func (c compiler) own(s *scope.Scope) []slot {
	mesh := s.World.Mesh
	slots := []slot{
		{typ: Cluster, name: cluster.BlackHoleName, get: c.blackHole},
		{typ: Cluster, name: cluster.PassthroughName, get: func() *Resource {
			return c.passthrough.get(cluster.PassthroughInput{ForwardProxy: true, ConnectTimeout: mesh.ConnectTimeout})
		}},
	}
	slots = append(slots, c.inboundSlots(s)...)
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

// inboundSlots are the listeners on the workload's own ports: those of its services, or of the Sidecar's ingress.
func (c compiler) inboundSlots(s *scope.Scope) []slot {
	var slots []slot
	taken := map[uint16]bool{}
	add := func(port uint16, protocol model.Protocol, stat, address string, endpointPort uint16) {
		if taken[port] {
			return
		}
		taken[port] = true
		name, to := "inbound_0.0.0.0_"+portText(port), cluster.InboundName(port)
		slots = append(slots,
			slot{typ: Cluster, name: to, get: func() *Resource {
				return c.inbound.get(cluster.InboundInput{
					Port: port, Address: address, EndpointPort: endpointPort, Protocol: protocol, ConnectTimeout: s.World.Mesh.ConnectTimeout,
				})
			}},
			slot{typ: Listener, name: name, get: func() *Resource {
				return c.inbounds.get(listener.InboundInput{
					Name: name, Bind: model.OwnPod, Port: port, Protocol: protocol, Cluster: to, StatName: stat,
					Common: c.of(s.World.Mesh).listeners(s.Class.Settings.HTTP10),
				})
			}})
	}
	if s.Sidecar != nil && (len(s.Sidecar.Ingress) > 0 || s.Sidecar.IngressClosed) {
		for _, in := range s.Sidecar.Ingress {
			add(in.Port, in.Protocol, in.Name, in.EndpointAddress, in.EndpointPort)
		}
		return slots
	}
	for t := range s.Class.Targets.All() {
		add(t.Port, t.Protocol, string(t.Host), model.OwnApp, t.Port)
	}
	return slots
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
			found = append(found, e)
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
