package compile

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// An intercepted connection comes to virtualOutbound, which gives it to the listener for its
// destination:
//
//	<address>_<port>  vipKind   for the service with that virtual IP, or with a pod of that address
//	                            if it is called by pod, and if its bytes need not be HTTP. A port
//	                            that does not say has a table of its own for requests,
//	                            "<host>:<port>".
//	0.0.0.0_<port>    port.go   requests to all HTTP services on the port go by their Host header
//	                            and the table "<port>". Other bytes go to services that have no
//	                            address, or else onward.
//
// A port has requests as long as its table has virtual hosts.

// virtualSlots returns the listeners that intercepted connections come to first, and the clusters
// of the workload's own ports.
func (b unitBuilder) virtualSlots(s *scope.Scope, ports []inbound) []slot {
	mesh := s.Mesh()
	slots := []slot{
		{typ: resource.Cluster, name: cluster.InboundPassthroughName, get: func() emitted {
			return b.passthrough.with(cluster.PassthroughInput{
				Inbound:        true,
				Stack:          s.Settings().Stack,
				ConnectTimeout: mesh.ConnectTimeout,
				Defaults:       mesh.Clusters,
				KeepsCase:      s.Headers().KeepsCase,
			}, b.clusterPatches(s, cluster.InboundPassthroughName, true))
		}},
		{typ: resource.Listener, name: listener.VirtualOutboundName, get: func() emitted {
			return b.virtualOut.with(listener.VirtualOutboundInput{
				To: unknownCluster(s), Listens: mesh.OutboundPort, Common: b.common(s, model.ClientMode),
			}, b.listenerPatches(
				s, listener.VirtualOutboundName, cmp.Or(mesh.OutboundPort, model.StandardOutboundPort), false,
			))
		}},
		{typ: resource.Listener, name: listener.VirtualInboundName, get: func() emitted {
			return b.virtualIn.with(b.virtualInbound(s, ports, b.common(s, model.ServerMode)),
				b.listenerPatches(
					s, listener.VirtualInboundName, cmp.Or(mesh.InboundPort, model.StandardInboundPort), true,
				))
		}},
	}
	for _, in := range ports {
		if in.hasListener(s) {
			slots = append(slots, b.inboundPair(s, in)...)
		} else {
			slots = append(slots, b.inboundCluster(s, in))
		}
	}
	return slots
}

// virtualInbound returns what the listener for all calls to the workload is made of.
func (b unitBuilder) virtualInbound(
	s *scope.Scope, ports []inbound, common *listener.Common,
) listener.VirtualInboundInput {
	named := make([]listener.InboundPort, 0, len(ports))
	for _, in := range ports {
		if !in.hasListener(s) {
			named = append(named, in.listenerPort(s))
		}
	}
	others := undeclaredPorts(s, 0)
	var undeclared []listener.UndeclaredPort
	for _, p := range s.PortsWithMTLS() {
		isNamed := slices.ContainsFunc(ports, func(in inbound) bool {
			return in.port == p.Port && !in.hasListener(s)
		})
		if own := undeclaredPorts(s, p.Port); !isNamed && own != others {
			undeclared = append(undeclared, listener.UndeclaredPort{Port: p.Port, Undeclared: own})
		}
	}
	return listener.VirtualInboundInput{
		Ports:       b.ports.List(named),
		Undeclared:  b.undeclared.List(undeclared),
		Others:      others,
		Listens:     s.Mesh().InboundPort,
		Transparent: s.Settings().Transparent,
		AuthFilters: b.authFiltersOf(s),
		Common:      common,
	}
}

// undeclaredPorts returns how connections are taken to a port that nobody names, or with port 0 to
// all that have no mode of their own.
func undeclaredPorts(s *scope.Scope, port uint16) listener.Undeclared {
	closed := s.Sidecar() != nil && s.Sidecar().IngressClosed
	takes := s.TakesMeshTLS() && s.MTLSMode(port) != model.MTLSDisable
	return listener.Undeclared{
		TakesTLS:   takes,
		Refuses:    closed || s.Refuses(port),
		RefusesTLS: takes && closed,
	}
}

// interceptedVhost returns a host's virtual host in the table of its port. A port that does not say
// what it speaks, of a service with addresses, has a table of its own that takes any Host
// header.
func (b unitBuilder) interceptedVhost(s *scope.Scope, h hostPort) []slot {
	if h.svc != nil && (s.HasVIP(h.svc) || h.svc.IsCalledByPod()) {
		if p, _ := h.svc.Port(h.port); p.Protocol == model.Auto {
			if h.svc.Host != h.host {
				return nil // connections to its address have the service's own table, whatever they call it
			}
			table := h.name()
			return []slot{
				{typ: resource.Route, name: table, head: func() emitted {
					return b.tableHead(s, route.TableInput{Name: table, AnyPort: true})
				}},
				b.vhostSlot(s, table, h, func() []string { return []string{"*"} }),
			}
		}
	}
	return []slot{b.vhostSlot(s, portText(h.port), h, func() []string { return b.interceptedNames(s, h) })}
}

// interceptedNames returns the names by which a host is called at its port. A headless service has
// those of its pods too, and a service with virtual IPs has these.
func (b unitBuilder) interceptedNames(s *scope.Scope, h hostPort) []string {
	names := b.names(s, h.host, h.port)
	if h.svc == nil || h.svc.Host != h.host {
		return names
	}
	if h.svc.Headless {
		for _, n := range slices.Clone(names) {
			if pods := model.Host("*." + n); !takenByOther(s, pods, h.port) {
				names = append(names, string(pods))
			}
		}
	}
	for _, address := range s.VIPs(h.svc) {
		if atVIP(s, address, h.port, true) == h.svc {
			names = append(names, bracketed(address))
		}
	}
	return names
}

// bracketed returns an address as it stands in a Host header.
func bracketed(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		return "[" + address + "]"
	}
	return address
}

// atVIP returns the first service with a virtual IP that the class calls at the port, by requests
// or else by bytes.
func atVIP(s *scope.Scope, address string, port uint16, requests bool) *model.Service {
	for svc := range s.ServicesAt(address, port) {
		p, _ := svc.Port(port)
		speaks := needsTCPListener(p.Protocol)
		if requests {
			speaks = p.Protocol.IsHTTP()
		}
		if speaks && s.Service(svc.Host) == svc && showsAt(s, svc, port, requests) {
			return svc
		}
	}
	return nil
}

// vipSlots returns the listener of an address and a port, for the first service that has them as a
// virtual IP, or else as those of a pod. Others with the virtual IP are reported.
func (b unitBuilder) vipSlots(s *scope.Scope, u unit, report func(source.Problem)) []slot {
	address, owner := string(u.host), atVIP(s, string(u.host), u.port, false)
	if owner == nil {
		owner = ofPod(s, address, u.port)
	}
	if owner == nil || ownsListener(s, address+"_"+portText(u.port)) {
		return nil
	}
	for svc := range s.ServicesAt(address, u.port) {
		if seen, _ := takesBytes(s, svc.Host, u.port); svc != owner && seen == svc {
			report(vipConflict(svc, u, owner))
		}
	}
	p, _ := owner.Port(u.port)
	in := listener.TCPInput{
		Name:   address + "_" + portText(u.port),
		Bind:   address,
		Port:   u.port,
		Common: b.common(s, model.ClientMode),
	}
	chains := b.chainsOn(s, u.port)
	switch {
	case p.Protocol == model.TLS:
		if owner.IsCalledByPod() { // whichever name a client asks for: the pod is in the address
			chains.addTLSRoutes(owner)
		} else {
			chains.addTLS(owner)
		}
		chains.found = append(chains.found, chains.directChain(owner, nil))
	case p.Protocol == model.Auto && s.EgressPort(u.port) == nil:
		in.RouteTable = hostPort{host: owner.Host, port: u.port}.name()
		chains.addTCP(owner)
	default:
		chains.addTCP(owner)
	}
	return []slot{{typ: resource.Listener, name: in.Name, get: func() emitted {
		in.Chains = b.chains.List(chains.found)
		return b.tcp.with(in, b.listenerPatches(s, in.Name, in.Port, false))
	}}}
}

func vipConflict(svc *model.Service, u unit, owner *model.Service) source.Problem {
	path := "spec.addresses"
	if svc.Kind == kinds.Service {
		path = "spec" // clusterIPs or externalIPs
	}
	return problemOf(&svc.Meta, source.Problem{
		Severity: source.Warning, Path: path, Value: string(u.host),
		Message: "port " + portText(u.port) + " at the address of " + string(svc.Host) + " is also that of " +
			string(owner.Host) +
			", which has it: workloads reach only that one there",
		Want: "an address or a port of its own", Code: source.OutboundConflict,
	})
}

// interceptedSlots returns the listener for connections to a port at any address.
func (b unitBuilder) interceptedSlots(s *scope.Scope, port uint16, owner *model.Service, requests bool) []slot {
	chains := b.chainsOn(s, port)
	for svc := range s.ServicesByPortMatch(port, state.MatchSNI) {
		if seen, _ := onPort(s, svc.Host, port); seen == svc {
			chains.addTLS(svc)
		}
	}
	for svc := range s.ServicesByPortMatch(port, state.MatchCIDR) {
		if seen, _ := onPort(s, svc.Host, port); seen == svc {
			chains.addRanges(svc)
		}
	}
	if owner == nil && len(chains.found) == 0 && !requests {
		return nil
	}
	if owner != nil {
		chains.addTCP(owner)
	} else {
		chains.addUnknown()
	}
	in := listener.TCPInput{
		Name: portListener(s, port), Port: port, Common: b.common(s, model.ClientMode),
	}
	if requests {
		in.RouteTable, in.DynamicDNS = portText(port), looksUpAny(s)
		for svc := range s.ServicesByPortMatch(port, state.MatchFiltered) {
			filters := filtersOf(s, svc.Host, port)
			in.GRPCWeb, in.DynamicDNS = in.GRPCWeb || filters.grpcWeb, in.DynamicDNS || filters.dynamicDNS
		}
	}
	return []slot{{typ: resource.Listener, name: in.Name, get: func() emitted {
		in.Chains = b.chains.List(chains.found)
		return b.tcp.with(in, b.listenerPatches(s, in.Name, in.Port, false))
	}}}
}

// addRanges adds a service whose addresses are prefixes.
func (b *chainBuilder) addRanges(svc *model.Service) {
	vips := svc.VIPs()
	ranges := slices.DeleteFunc(slices.Clone(svc.Addresses), func(a string) bool { return slices.Contains(vips, a) })
	before := len(b.found)
	b.addTCP(svc)
	for i := range b.found[before:] {
		if chain := &b.found[before+i]; chain.Prefixes.Len() == 0 {
			chain.Prefixes = b.domains.List(ranges)
		}
	}
}

// unknownChain is Istio's name of the chain for connections to what no service has.
const unknownChain = "PassthroughFilterChain"

func (b *chainBuilder) addUnknown() {
	to := unknownCluster(b.scope)
	chain := listener.Chain{Name: unknownChain, Closed: to == ""}
	if to != "" {
		chain.Targets = b.targets.List([]listener.WeightedTarget{{Cluster: to, Weight: 1}})
	}
	b.found = append(b.found, chain)
}

// tablePort returns the port of the requests that a route table is for: of intercepted ones, or at
// a listener of a Sidecar.
func tablePort(s *scope.Scope, table string) (uint16, bool) {
	if !s.Intercepts() && !s.LimitsPorts() {
		return 0, false
	}
	port, err := strconv.ParseUint(table, 10, 16)
	return uint16(port), err == nil
}

// hasRequests reports whether intercepted requests to a port are routed.
func (c *class) hasRequests(port uint16) bool { return c.tables[portText(port)].head != nil }

// toggleRequests edits the table of a port that gets its first virtual host or loses its last, or
// in which a virtual host takes any Host header. The table then gets or loses its head, and the
// virtual host for unknown hosts.
func (c *class) toggleRequests(builder unitBuilder, s *scope.Scope, port uint16, e *edits) {
	name := portText(port)
	fallback := fallbackName(s)
	hosts := c.tables[name].vhosts + c.addedVhosts(e, name)
	if c.willHave(e, name, fallback) {
		hosts--
	}
	hosts -= c.addedByPatches(builder, s, name, e)
	var wanted emitted
	exists := hosts > 0 || hasOwnTable(s, port)
	if exists && !c.willHave(e, name, hostPort{host: "*", port: port}.name()) {
		wanted = builder.fallback(s, name)
	}
	e.editVirtualHost(name, fallback, wanted.Resource)
	e.match(slot{typ: resource.VirtualHost, table: name, name: fallback}, wanted)
	toggles := exists != c.hasRequests(port)
	if !toggles && !e.patchesTables {
		return
	}
	e.toggled[port] = e.toggled[port] || toggles
	var head emitted
	if exists {
		head = builder.tableHead(s, route.TableInput{Name: name, AnyPort: true})
	}
	e.heads[name] = head.Resource
	e.match(slot{typ: resource.Route, name: name}, head)
}
