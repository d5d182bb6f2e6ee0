package compile

import (
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// defaultPort is the port of a Host header without one, and of routes for hosts that no service
// has.
const defaultPort = 80

// hostPort is a host as it is called at a port.
type hostPort struct {
	host   model.Host
	port   uint16
	svc    *model.Service // that is called; nil for a host that only a VirtualService has
	routes *model.VirtualService
}

func (h hostPort) name() string { return string(h.host) + ":" + portText(h.port) }

func (h hostPort) speaksGRPCWeb() bool {
	if h.svc == nil {
		return false
	}
	p, _ := h.svc.Port(h.port)
	return p.Protocol == model.GRPCWeb
}

// httpPortsOf returns the ports of a host that can be HTTP.
func httpPortsOf(s *scope.Scope, host model.Host) []hostPort {
	svc := s.Service(host)
	if svc == nil {
		vs := s.VirtualService(host, defaultPort, scope.HTTPRoutes)
		if vs == nil || host == "*" || !slices.Contains(vs.Hosts, host) {
			return nil
		}
		return []hostPort{{host: host, port: defaultPort, routes: vs}}
	}
	named := s.Resolved(svc)
	routes := func(port uint16) *model.VirtualService {
		vs := s.VirtualService(host, port, scope.HTTPRoutes)
		if vs == nil && named != svc {
			vs = s.VirtualService(named.Host, port, scope.HTTPRoutes)
		}
		return vs
	}
	var found []hostPort
	for _, p := range named.Ports {
		if mayBeHTTP(p) {
			found = append(found, hostPort{host: host, port: p.Port, svc: named, routes: routes(p.Port)})
		}
	}
	for _, p := range svc.Ports {
		if _, there := named.Port(p.Port); mayBeHTTP(p) && !there {
			found = append(found, hostPort{host: host, port: p.Port, svc: svc, routes: routes(p.Port)})
		}
	}
	return found
}

func mayBeHTTP(p model.ServicePort) bool { return p.Protocol.IsHTTP() || p.Protocol == model.Auto }

// vhostSlots returns the virtual hosts of a host, one for each port that can be HTTP: in the table
// of the HTTP proxy port, in those of intercepted requests, and in those of a Sidecar's listeners.
func (b unitBuilder) vhostSlots(s *scope.Scope, host model.Host) []slot {
	if s.Type() != scope.Sidecar || !s.Intercepts() && s.HTTPProxyPort() == 0 && !s.LimitsPorts() {
		return nil
	}
	var slots []slot
	for _, h := range httpPortsOf(s, host) {
		others := h.shownBy(s, nil)
		if s.HTTPProxyPort() != 0 && others {
			slots = append(slots, b.vhostSlot(s, httpProxyTable, h, func() []string {
				return withPorts(b.names(s, host, h.port), h.port)
			}))
		}
		if s.Intercepts() && others && s.EgressPort(h.port) == nil {
			slots = append(slots, b.interceptedVhost(s, h)...)
		}
		slots = append(slots, b.egressVhosts(s, h)...)
	}
	return slots
}

func (b unitBuilder) vhostSlot(s *scope.Scope, table string, h hostPort, domains func() []string) slot {
	return slot{typ: resource.VirtualHost, table: table, name: h.name(), get: func() emitted {
		var refs []route.RouteRef
		if h.routes != nil {
			refs = meshRoutes(s, h.routes, h.port)
		}
		var to route.Target
		if len(refs) == 0 && h.svc != nil { // where routes exist, a request that none matches gets 404, as in Istio
			to = route.Target{Host: h.svc.Host, Port: h.port}
		}
		in := b.vhostInput(s, refs, to, h.port)
		in.Domains = b.domains.List(domains())
		_, byPort := tablePort(s, table)
		in.GRPCWeb = byPort && s.Intercepts() && h.speaksGRPCWeb()
		in.DynamicDNS = leadsToNames(s, h, in.Facts)
		return b.vhosts.with(vhostKey{table: table, name: h.name(), in: in}, b.hostPatches(s, table, h.name()))
	}}
}

// vhostInput gathers all that the routes depend on. The caller sets the domains.
func (b unitBuilder) vhostInput(
	s *scope.Scope, refs []route.RouteRef, to route.Target, port uint16,
) route.VirtualHostInput {
	headers := s.Headers()
	return route.VirtualHostInput{
		Routes:         b.refs.List(refs),
		Default:        to,
		Facts:          b.facts.List(b.factsOf(s, refs, to, port)),
		Retries:        b.meshPartsOf(s.Mesh()).retries,
		Port:           port,
		NoAttemptCount: headers.NoAttemptCount,
		ForwardedHost:  headers.ForwardedHost,
	}
}

// entryPoint is where requests and connections come in: at a port, and through "mesh" or gateways
// by their "namespace/name".
type entryPoint struct {
	port     uint16
	gateways []string
}

func inMesh(port uint16) entryPoint { return entryPoint{port: port, gateways: []string{model.Mesh}} }

// routesOf returns the routes of a VirtualService that the class has at an entry point: one for
// each match that can hold there.
func routesOf(s *scope.Scope, vs *model.VirtualService, at entryPoint) []route.RouteRef {
	var refs []route.RouteRef
	for _, r := range vs.HTTP {
		if len(r.Matches) == 0 {
			refs = append(refs, route.RouteRef{Owner: vs.Key(), Route: r})
			continue
		}
		for _, m := range r.Matches {
			if applies(s, vs, conditions{m.Port, m.SourceLabels, m.SourceNamespace, m.Gateways}, at) {
				refs = append(refs, route.RouteRef{Owner: vs.Key(), Route: r, Match: m})
			}
		}
	}
	return refs
}

// routesHTTP reports whether routesOf returns any.
func routesHTTP(s *scope.Scope, vs *model.VirtualService, at entryPoint) bool {
	return slices.ContainsFunc(vs.HTTP, func(r *model.HTTPRoute) bool {
		return len(r.Matches) == 0 || slices.ContainsFunc(r.Matches, func(m *model.HTTPMatch) bool {
			return applies(s, vs, conditions{m.Port, m.SourceLabels, m.SourceNamespace, m.Gateways}, at)
		})
	})
}

// conditions are the parts of a match that hold or fail for a class at an entry point, whatever the
// request.
type conditions struct {
	port            uint16
	sourceLabels    model.Labels
	sourceNamespace string
	gateways        []string
}

func applies(s *scope.Scope, vs *model.VirtualService, m conditions, at entryPoint) bool {
	return s.Meets(vs, scope.Condition{
		Port:            m.port,
		SourceLabels:    m.sourceLabels,
		SourceNamespace: m.sourceNamespace,
		Gateways:        m.gateways,
	}, scope.EntryPoint{Port: at.port, Gateways: at.gateways})
}

// factsOf returns what the routes need to know of the destinations that they name, sorted, each
// once.
func (b unitBuilder) factsOf(
	s *scope.Scope, refs []route.RouteRef, to route.Target, called uint16,
) []route.DestinationFact {
	var facts []route.DestinationFact
	add := func(d model.Destination) {
		facts = append(facts, factOf(s, route.DestinationFact{
			Host:     d.Host,
			Port:     d.Port,
			Subset:   d.Subset,
			PortName: d.PortName,
		}, called))
	}
	if to != (route.Target{}) {
		add(model.Destination{Host: to.Host, Port: to.Port, Subset: to.Subset})
	}
	for _, ref := range refs {
		for _, d := range ref.Route.Destinations {
			add(d)
		}
		for _, m := range ref.Route.Mirrors {
			add(m.Destination)
		}
	}
	slices.SortFunc(facts, route.CompareFacts)
	return slices.Compact(facts)
}

func factOf(s *scope.Scope, f route.DestinationFact, called uint16) route.DestinationFact {
	svc, port := servedBy(s, model.Destination{Host: f.Host, Port: f.Port, PortName: f.PortName}, called)
	f.Resolved = port
	if svc != nil && svc.Host != f.Host {
		f.ServedBy = svc.Host
	}
	if svc == nil {
		return f
	}
	f.Session = svc.Session
	rule := s.DestinationRule(svc)
	if rule == nil {
		return f
	}
	sub, _ := rule.Subset(f.Subset)
	if lb := cluster.Effective(rule.Policy, sub.Policy, nil, f.Resolved).LB; lb != nil {
		f.Hash = lb.Hash
	}
	return f
}

// servedBy returns the service that serves a destination, and the port there: the given one, or the
// service's only one, or the one that was called. Of another name of a service it is the service,
// if that has the port; else the other name's own cluster looks the name up. The service is nil if
// the class sees none.
func servedBy(s *scope.Scope, d model.Destination, called uint16) (*model.Service, uint16) {
	svc := s.Service(d.Host)
	if svc == nil {
		return nil, portOf(nil, d, called)
	}
	if named := s.Resolved(svc); named != svc {
		if d.Port == 0 && d.PortName == "" && len(svc.Ports) == 1 {
			d.Port = svc.Ports[0].Port // what the other name lists comes first
		}
		port := portOf(named, d, called)
		if _, serves := named.Port(port); serves {
			return named, port
		}
	}
	return svc, portOf(svc, d, called)
}

// portOf returns the port of a destination at a service, which may be nil.
func portOf(svc *model.Service, d model.Destination, called uint16) uint16 {
	switch {
	case d.PortName != "":
		return portNamed(svc, d.PortName)
	case d.Port != 0:
		return d.Port
	case svc != nil && len(svc.Ports) == 1:
		return svc.Ports[0].Port
	}
	return called
}

// portNamed returns the port of a service by its name; 0 if there is none.
func portNamed(svc *model.Service, name string) uint16 {
	if svc == nil {
		return 0
	}
	for _, p := range svc.Ports {
		if p.Name == name {
			return p.Port
		}
	}
	return 0
}

// names returns the names by which the class may call a host at a port: the host itself, short
// forms of a Kubernetes service, and the absolute form with a trailing dot. A name that is another
// host's own is left to that one, since Envoy refuses a table in which a domain stands twice.
func (b unitBuilder) names(s *scope.Scope, host model.Host, port uint16) []string {
	names := []string{string(host)}
	for _, alias := range aliases(host, s.IsOwn, s.Mesh().Domain) {
		if !takenByOther(s, model.Host(alias), port) {
			names = append(names, alias)
		}
	}
	return names
}

func takenByOther(s *scope.Scope, name model.Host, port uint16) bool {
	if svc := s.Service(name); svc != nil {
		if !svc.IsAlias() {
			p, ok := svc.Port(port)
			return ok && mayBeHTTP(p)
		}
		return slices.ContainsFunc(httpPortsOf(s, name), func(h hostPort) bool { return h.port == port })
	}
	if port != defaultPort || !s.HasRoutesOf(name) {
		return false
	}
	vs := s.VirtualService(name, port, scope.HTTPRoutes)
	return vs != nil && slices.Contains(vs.Hosts, name)
}

// aliases returns the other names of a host. Callers of the namespaces for which calls is true may
// use the shortest.
func aliases(host model.Host, calls func(namespace string) bool, domain string) []string {
	if host.IsWildcard() {
		return nil
	}
	var names []string
	if base, ok := strings.CutSuffix(string(host), ".svc."+domain); ok {
		if name, own, ok := strings.Cut(base, "."); ok && !strings.Contains(own, ".") {
			if calls(own) {
				names = append(names, name)
			}
			names = append(names, base, base+".svc")
		}
	}
	if strings.Contains(string(host), ".") && !strings.HasSuffix(string(host), ".") {
		names = append(names, string(host)+".")
	}
	return names
}

// aliasOf returns the hosts for which a name may be an alias: the reverse of aliases.
func aliasOf(s *scope.Scope, name model.Host) []model.Host {
	domain := s.Mesh().Domain
	n := strings.TrimPrefix(string(name), "*.") // names below a headless service belong to it too
	hosts := []model.Host{model.Host(strings.TrimSuffix(n, "."))}
	if !strings.Contains(n, ".") {
		hosts = append(hosts, model.Host(n+"."+s.Namespace()+".svc."+domain))
	}
	return append(hosts, model.Host(n+".svc."+domain), model.Host(n+"."+domain))
}

// withPorts returns the Host headers for names at a port. That of HTTP may be left out. "*" without
// a port is the fallback's.
func withPorts(names []string, port uint16) []string {
	var domains []string
	for _, n := range names {
		if port == defaultPort && n != "*" {
			domains = append(domains, n)
		}
		domains = append(domains, n+":"+portText(port))
	}
	return domains
}

// problemOf returns a problem, found while compiling, as one of an object.
func problemOf(m *model.Meta, p source.Problem) source.Problem {
	p.Object = m.Key()
	return p
}
