package compile

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// httpProxyTable is Istio's name of the route table of the HTTP proxy port.
const httpProxyTable = "http_proxy"

// own returns the slots of ownKind.
func (b unitBuilder) own(s *scope.Scope, report func(source.Problem)) []slot {
	mesh := s.Mesh()
	hole := slot{typ: resource.Cluster, name: cluster.BlackHoleName, get: func() emitted {
		if by := b.clusterPatches(s, cluster.BlackHoleName, false); by.by != nil {
			return b.blackHoles.with(struct{}{}, by)
		}
		return unpatched(b.blackHole)
	}}
	slots := append(b.policySlots(s), hole)
	reportTags(s, report)
	if s.Type() == scope.Router {
		return slots
	}
	slots = append(slots, slot{typ: resource.Cluster, name: cluster.PassthroughName, get: func() emitted {
		return b.passthrough.with(cluster.PassthroughInput{
			ForwardProxy:   !s.Intercepts(),
			Defaults:       mesh.Clusters,
			ConnectTimeout: mesh.ConnectTimeout,
			KeepsCase:      s.Headers().KeepsCase,
		}, b.clusterPatches(s, cluster.PassthroughName, false))
	}})
	slots = append(slots, b.anyNameSlots(s)...)
	ports := inboundPorts(s, report)
	reportStrict(s, ports, report)
	if s.Intercepts() {
		slots = append(slots, b.virtualSlots(s, ports)...)
	} else {
		for _, in := range ports {
			slots = append(slots, b.inboundPair(s, in)...)
		}
	}
	slots = append(slots, b.egressSlots(s, report)...)
	port := s.HTTPProxyPort()
	if port == 0 {
		return slots
	}
	name := proxyListener(port)
	return append(slots,
		slot{typ: resource.Listener, name: name, get: func() emitted {
			return b.proxies.with(listener.HTTPInput{
				Name: name, Bind: model.OwnOutbound, Port: port, BindToPort: true, RouteTable: httpProxyTable,
				ProxyUnknown: !s.Intercepts(), DynamicDNS: s.Settings().DynamicDNS,
				Common: b.common(s, model.ClientMode),
			}, b.listenerPatches(s, name, port, false))
		}},
		slot{typ: resource.Route, name: httpProxyTable, head: func() emitted {
			return b.tableHead(s, route.TableInput{Name: httpProxyTable})
		}},
		slot{typ: resource.VirtualHost, table: httpProxyTable, name: fallbackName(s), get: func() emitted {
			return b.fallback(s, httpProxyTable)
		}},
	)
}

// proxyListener returns the name of the listener of the HTTP proxy port.
func proxyListener(port uint16) string { return "127.0.0.1_" + portText(port) }

// fallbackOf returns where requests for unknown hosts go.
func fallbackOf(s *scope.Scope) route.FallbackInput {
	if looksUpAny(s) {
		return route.FallbackInput{
			To: cluster.AnyNameName, DynamicDNS: true, NoAttemptCount: s.Headers().NoAttemptCount,
		}
	}
	return route.FallbackInput{To: unknownCluster(s), NoAttemptCount: s.Headers().NoAttemptCount}
}

// fallback returns the virtual host of a table for requests to unknown hosts.
func (b unitBuilder) fallback(s *scope.Scope, table string) emitted {
	in := fallbackOf(s)
	return b.fallbacks.with(fallbackKey{table: table, in: in}, b.hostPatches(s, table, nameOfFallback(in)))
}

// unknownCluster returns the cluster of traffic to unknown hosts; empty if it is refused.
func unknownCluster(s *scope.Scope) string {
	switch policy := s.Outbound(); {
	case policy.RegistryOnly:
		return ""
	case policy.Proxy != model.EgressProxy{}:
		return pb.OutboundCluster(policy.Proxy.Host, policy.Proxy.Port, policy.Proxy.Subset)
	}
	return cluster.PassthroughName
}

func fallbackName(s *scope.Scope) string { return nameOfFallback(fallbackOf(s)) }

// nameOfFallback returns Istio's name of a virtual host for unknown hosts.
func nameOfFallback(in route.FallbackInput) string {
	switch {
	case in.To == "":
		return "block_all"
	case in.DynamicDNS:
		return "allow_any_dynamic_dns"
	}
	return "allow_any"
}

// clusterSlots returns the clusters of a host with their endpoints. With endpointsOnly it returns
// the endpoints alone.
func (b unitBuilder) clusterSlots(s *scope.Scope, host model.Host, endpointsOnly bool) []slot {
	svc := s.Service(host)
	if svc == nil {
		return nil
	}
	rule, named := s.DestinationRule(svc), s.Resolved(svc)
	clusters := clusterBuilder{unitBuilder: b, scope: s, service: svc, endpointsOnly: endpointsOnly}
	for _, p := range svc.Ports {
		if p.Protocol == model.UDP || named != svc && isServedBy(named, p) {
			continue
		}
		in := b.outbound(s, svc, p, rule)
		clusters.add(p, in, model.Labels{})
		if rule == nil || svc.Resolution == model.DynamicDNS { // nothing of a name tells its subset
			continue
		}
		for _, sub := range rule.Subsets {
			subIn := in
			subIn.Subset, subIn.SubsetPolicy = sub.Name, sub.Policy
			subIn.StatName = outboundStat(s, svc, p, sub.Name)
			subIn.Secured = hasCredential(s, subIn)
			clusters.add(p, subIn, sub.Labels)
		}
	}
	return clusters.slots
}

// isServedBy reports whether requests to a port of another name of a service go to the service's
// own cluster.
func isServedBy(named *model.Service, p model.ServicePort) bool {
	_, there := named.Port(p.Port)
	return there && p.Protocol.IsHTTP()
}

func (b unitBuilder) outbound(
	s *scope.Scope, svc *model.Service, p model.ServicePort, rule *model.DestinationRule,
) cluster.OutboundInput {
	in := cluster.OutboundInput{
		Host: svc.Host, Port: p.Port, Protocol: p.Protocol, Resolution: svc.Resolution, External: svc.External,
		Gateway: s.Type() == scope.Router && p.Protocol == model.Auto,
		Service: svc.Namespace + "/" + svc.TelemetryName(), KeepsCase: s.Headers().KeepsCase,
		Defaults: s.Mesh().Clusters, StatName: outboundStat(s, svc, p, ""),
		ConnectTimeout: s.Mesh().ConnectTimeout,
		UpgradeHTTP2:   s.Mesh().UpgradeHTTP2 && p.Protocol == model.HTTP,
	}
	if svc.Resolution == model.DynamicDNS && !isLookedUp(s, svc) {
		in.Resolution = model.EDS // without endpoints: closed
	}
	if in.Resolution != model.EDS {
		in.Stack, in.DNSRefresh = s.Settings().Stack, s.Mesh().DNSRefresh
	}
	if svc.Headless && s.Intercepts() {
		in.Resolution = model.Passthrough // the caller has picked a pod by its address
	} else if svc.Resolution == model.Passthrough && !s.Intercepts() {
		if s.Endpoints(svc).IsEmpty() {
			in.ForwardProxy = true
		} else {
			in.Resolution = model.EDS
		}
	}
	if rule != nil {
		in.Policy, in.Rule = rule.Policy, rule.Namespace+"/"+rule.Name
	}
	in.Backend = s.BackendTLS(svc)
	if rule != nil {
		in.Secured = hasCredential(s, in)
	}
	return in
}

// clusterBuilder collects the clusters of a service with their endpoints. With endpointsOnly it
// collects the endpoints alone.
type clusterBuilder struct {
	unitBuilder
	scope         *scope.Scope
	service       *model.Service
	endpointsOnly bool
	slots         []slot
}

// add adds the cluster of a port and, if its endpoints are pushed, their assignment. The endpoints
// are those that the subset selects.
func (c *clusterBuilder) add(p model.ServicePort, in cluster.OutboundInput, subset model.Labels) {
	b, s, svc := c.unitBuilder, c.scope, c.service
	policy := cluster.Effective(in.Policy, in.SubsetPolicy, in.Backend, in.Port)
	if in.Backend != nil && cluster.Effective(in.Policy, in.SubsetPolicy, nil, in.Port).TLS == nil {
		if name, holds := s.Presents(); name != "" {
			in.Presents, in.Secured = name, holds != model.Missing
		}
	}
	prefer := b.preference(s, svc, policy.LB, policy.Outlier != nil)
	in.LocalityWeights = prefer.HasWeights()
	in.Zones = zonesOf(s, svc, policy.LB)
	in.Sessions = svc.Session != nil
	found := c.lookedUp(p, in, subset)
	in.AutoTLS = c.autoTLS(p, in, policy, found)
	in.Names = b.serverNames(s, svc, in, policy.TLS)
	in.TLS = tlsLimits(s.Mesh(), policy.TLS, in.AutoTLS)
	in.Exchange = s.Settings().IstioFilters && !in.Protocol.IsHTTP()
	if in.Resolution.IsByDNS() && !in.ConnectsAsCalled(policy.LB) {
		c.addLookedUp(in, found, prefer)
		return
	}
	r := b.clusters.with(in, b.clusterPatches(s, in.Name(), false))
	if !c.endpointsOnly && r != (emitted{}) {
		c.slots = append(c.slots, slot{
			typ:  resource.Cluster,
			name: in.Name(),
			get:  func() emitted { return r },
		})
	}
	if r.Resource == nil || !r.IsEDS() {
		return
	}
	stack := s.Settings().Stack
	key := groupKey{
		portName: p.Name,
		subset:   subset,
		family:   stack.FamilyFor(svc),
		dual:     svc.TwoFamilies && stack == model.DualStack,
		tls:      in.AutoTLS,
		tlsOnly:  in.Forwarded,
		ending:   svc.Session != nil,
	}
	assignment := func() assignmentKey {
		return assignmentKey{cluster: r.Name(), prefer: prefer, list: b.groups.get(s, svc, key)}
	}
	if !prefer.IsNone() {
		key.marks = b.labels.List(prefer.Marks())
		if keys := b.labels.List(prefer.Keys()); keys.Len() > 0 {
			c.slots = append(c.slots, slot{typ: resource.Endpoint, name: r.Name(), vary: func() *varied {
				return &varied{key: assignment(), keys: keys}
			}})
			return
		}
	}
	c.slots = append(c.slots, slot{
		typ:  resource.Endpoint,
		name: r.Name(),
		get:  func() emitted { return unpatched(b.assignments.get(assignment())) },
	})
}

// tlsLimits returns the mesh's limits on the TLS of a cluster, nil for one without TLS.
func tlsLimits(mesh *model.MeshConfig, rule *model.ClientTLS, auto bool) *model.TLSParams {
	switch {
	case auto || rule != nil && rule.Mode == model.IstioMutual:
		return mesh.MeshTLS
	case rule != nil && rule.Mode != model.Disable:
		return mesh.TLSDefaults
	}
	return nil
}

// autoTLS reports whether calls to a cluster are in mutual TLS of the mesh with those endpoints
// that take it. A cluster that connects to the address which the caller picked knows nothing of the
// endpoint there, so its calls are in TLS if all endpoints of the port take it, as in Istio. A
// gateway that forwards connections adds none to theirs. found are the endpoints that are looked
// up.
func (c *clusterBuilder) autoTLS(
	p model.ServicePort, in cluster.OutboundInput, policy model.TrafficPolicy, found []model.Endpoint,
) bool {
	if !c.scope.CallsInMeshTLS() || policy.TLS != nil || in.External || in.Forwarded {
		return false
	}
	if in.ConnectsAsCalled(policy.LB) {
		return c.scope.Endpoints(c.service).AllTakeTLS(p.Name)
	}
	return in.Resolution == model.EDS || slices.ContainsFunc(found, func(e model.Endpoint) bool { return e.TLS })
}
