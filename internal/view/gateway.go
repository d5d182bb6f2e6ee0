package view

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// resolvedPort is the port that a gateway workload binds for a server: the target port of the gateway's own Service where
// it has the server's port, else the server's port itself.
func resolvedPort(c *scope.Class, port uint16) uint16 {
	for t := range c.Targets.All() {
		if t.Service == port {
			return t.Port
		}
	}
	return port
}

// serving are the servers that a gateway class has on a bound port, with their Gateways, in the total order. A broken
// server stays closed.
func serving(s *scope.Scope, port uint16) []server {
	var found []server
	for g := range s.Gateways() {
		for i := range g.Servers {
			sv := &g.Servers[i]
			if sv.Broken == "" && sv.Protocol.IsHTTP() && resolvedPort(s.Class, sv.Port) == port {
				found = append(found, server{gateway: g, GatewayServer: sv})
			}
		}
	}
	return found
}

type server struct {
	gateway *model.Gateway
	*model.GatewayServer
}

func (sv server) name() string { return sv.gateway.Namespace + "/" + sv.gateway.Name }

// redirects tells whether the server answers requests for this host of its own with a redirect to https.
func (sv server) redirects(host model.Host) bool {
	return sv.Redirect && slices.ContainsFunc(sv.Hosts, func(h model.ScopedHost) bool { return h.Host == host })
}

// meets yields the host that a VirtualService's host and one of the server's have in common, the narrower of the two.
func (sv server) meets(vs *model.VirtualService, host model.Host) (model.Host, bool) {
	for _, h := range sv.Hosts {
		if h.Namespace != "*" && h.Namespace != vs.Namespace {
			continue
		}
		if h.Host.Covers(host) {
			return host, true
		}
		if host.Covers(h.Host) {
			return h.Host, true
		}
	}
	return "", false
}

func gatewayTable(port uint16) string { return "http." + portText(port) }

// gatewaySlots are the listener and the table of a gateway's port; none when no server is open on it.
func (c compiler) gatewaySlots(s *scope.Scope, port uint16) []slot {
	if len(serving(s, port)) == 0 {
		return nil
	}
	name, table := "0.0.0.0_"+portText(port), gatewayTable(port)
	return []slot{
		{typ: Listener, name: name, get: func() *Resource {
			return c.gateways.get(listener.GatewayInput{
				Name: name, Bind: model.OwnPod, Port: port, RouteTable: table, Refuses: s.Refuses(port),
				Common: c.of(s.World.Mesh).listeners(s.Class.Settings.HTTP10),
			})
		}},
		{typ: Route, name: table, head: func() []byte { return tableHead(route.TableInput{Name: table, AnyPort: true}) }},
	}
}

// gatewayHostSlots is the virtual host of a host on a gateway's port: the routes of all VirtualServices bound to its servers
// that have the host in common with them, in the total order. A server that redirects to https does so for its hosts
// whether they have routes or not.
func (c compiler) gatewayHostSlots(s *scope.Scope, port uint16, host model.Host) []slot {
	servers := serving(s, port)
	owners := boundRoutes(s, servers, host)
	redirect := slices.ContainsFunc(servers, func(sv server) bool { return sv.redirects(host) }) ||
		slices.ContainsFunc(owners, func(o bound) bool { return o.redirect })
	if len(owners) == 0 && !redirect {
		return nil
	}
	called := port
	if len(owners) > 0 {
		called = owners[0].at.port
	}
	name := string(host) + ":" + portText(port)
	return []slot{{typ: Route, table: gatewayTable(port), name: name, get: func() *Resource {
		var refs []route.RouteRef
		for _, o := range owners {
			refs = append(refs, routesOf(s, o.vs, o.at)...)
		}
		in := c.vhostInput(s, refs, route.Target{}, called)
		in.Domains = c.domains.List([]string{string(host)})
		in.RequireTLS = redirect
		return c.vhosts.get(vhostKey{name: name, in: in})
	}}}
}

// bound is a VirtualService that gives a gateway's virtual host routes, and where its requests come in.
type bound struct {
	vs       *model.VirtualService
	at       entrance
	redirect bool // to https, as one of the servers says
}

// boundRoutes are the VirtualServices that give a gateway's virtual host its routes.
func boundRoutes(s *scope.Scope, servers []server, host model.Host) []bound {
	var owners []bound
	seen := map[*model.VirtualService]bool{}
	for pattern := range host.Patterns() {
		for vs := range s.World.VirtualServicesOf(pattern) {
			if seen[vs] || !vs.ExportTo.Visible(vs.Namespace, s.Class.Namespace) {
				continue
			}
			if b := boundAt(servers, vs, pattern, host); len(b.at.gateways) > 0 {
				seen[vs] = true
				owners = append(owners, b)
			}
		}
	}
	slices.SortFunc(owners, func(a, b bound) int { return a.vs.Compare(&b.vs.Meta) })
	return owners
}

// boundAt binds a VirtualService by one of its hosts to all servers that have host in common with it; the first one's port is
// the one that callers mean.
func boundAt(servers []server, vs *model.VirtualService, pattern, host model.Host) bound {
	b := bound{vs: vs}
	for _, sv := range servers {
		if common, ok := sv.meets(vs, pattern); !ok || common != host || !slices.Contains(vs.Gateways, sv.name()) {
			continue
		}
		if len(b.at.gateways) == 0 {
			b.at.port = sv.Port
		}
		b.at.gateways = append(b.at.gateways, sv.name())
		b.redirect = b.redirect || sv.Redirect
	}
	return b
}

// gatewayUnits are all units of a gateway's ports.
func gatewayUnits(s *scope.Scope) []unit {
	units := map[unit]bool{}
	for g := range s.Gateways() {
		addGateway(s, g, units)
	}
	return sortedUnits(units)
}

// addGateway adds the units that a Gateway gives to a class: its ports, and the virtual hosts of its servers and of its
// VirtualServices.
func addGateway(s *scope.Scope, g *model.Gateway, units map[unit]bool) {
	for i := range g.Servers {
		port := resolvedPort(s.Class, g.Servers[i].Port)
		units[unit{kind: unitGateway, port: port}] = true
		for _, h := range g.Servers[i].Hosts {
			units[unit{kind: unitGatewayHost, port: port, host: h.Host}] = true // a redirect needs no routes
		}
	}
	for vs := range s.World.VirtualServicesAt(g.Namespace + "/" + g.Name) {
		addBound(s, g, vs, units)
	}
}

// addBound adds the units of the virtual hosts that a VirtualService may have at a Gateway.
func addBound(s *scope.Scope, g *model.Gateway, vs *model.VirtualService, units map[unit]bool) {
	for i := range g.Servers {
		sv := server{gateway: g, GatewayServer: &g.Servers[i]}
		for _, host := range vs.Hosts {
			for _, h := range sv.Hosts {
				if h.Host.Covers(host) || host.Covers(h.Host) {
					narrower := host
					if !h.Host.Covers(host) {
						narrower = h.Host
					}
					units[unit{kind: unitGatewayHost, port: resolvedPort(s.Class, sv.Port), host: narrower}] = true
				}
			}
		}
	}
}

func sortedUnits(units map[unit]bool) []unit {
	return slices.SortedFunc(maps.Keys(units), compareUnits)
}
