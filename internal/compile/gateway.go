package compile

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// serversOn returns the servers that a gateway class has at an address, broken ones too, in the
// total order.
func serversOn(s *scope.Scope, at scope.Address) []server {
	on := s.ServersOn(at)
	found := make([]server, 0, len(on))
	for _, of := range on {
		found = append(found, serverAt(of.Gateway, of.Index))
	}
	return found
}

type server struct {
	gateway *model.Gateway
	index   int // in the Gateway
	*model.GatewayServer
}

func serverAt(g *model.Gateway, index int) server { return server{g, index, &g.Servers[index]} }

func (sv server) is(o server) bool { return sv.gateway == o.gateway && sv.index == o.index }

// entryPoint is where the server's connections come in.
func (sv server) entryPoint() entryPoint {
	return entryPoint{port: sv.Port, gateways: []string{sv.name()}}
}

// tableOn returns the name of the server's route table at an address. HTTP in plaintext shares
// one table. A server with TLS has its own. The name is empty for what is not HTTP.
func (sv server) tableOn(at scope.Address) string {
	switch {
	case !sv.Protocol.IsHTTP():
		return ""
	case sv.TLS == nil:
		return plaintextTable(at)
	}
	return ownTablePrefix + portText(sv.Port) + "." + sv.PortName + "." + sv.gateway.Name + "." + sv.gateway.Namespace +
		bindSuffix(sv.Bind)
}

func (sv server) name() string { return sv.gateway.Namespace + "/" + sv.gateway.Name }

// lists reports whether a host is one of the server's as they are written.
func (sv server) lists(host model.Host) bool {
	return slices.ContainsFunc(sv.Hosts, func(h model.ScopedHost) bool { return h.Host == host })
}

// covers reports whether one of the server's hosts covers a host.
func (sv server) covers(host model.Host) bool { return coversHost(sv.Hosts, host) }

func coversHost(hosts []model.ScopedHost, host model.Host) bool {
	return slices.ContainsFunc(hosts, func(h model.ScopedHost) bool { return h.Host.Covers(host) })
}

// redirects reports whether the server answers requests for this host of its own with a redirect to
// https.
func (sv server) redirects(host model.Host) bool {
	return sv.Redirect && sv.lists(host)
}

// redirectPorts returns the port of the server that redirects a host to https, and that of its
// Gateway's server with TLS for the host: 0 if there is none, and 443 before others. Only Gateways
// count that give the host a virtual host here: a change of one compiles that again.
func redirectPorts(servers []server, owners []bound, host model.Host) (from, to uint16) {
	for _, sv := range servers {
		isBound := slices.ContainsFunc(owners, func(o bound) bool { return slices.Contains(o.at.gateways, sv.name()) })
		if !sv.redirects(host) && (!isBound || !sv.Redirect || !sv.covers(host)) {
			continue
		}
		for i := range sv.gateway.Servers {
			o := &sv.gateway.Servers[i]
			if o.HasTLS() && coversHost(o.Hosts, host) && (to == 0 || o.Port == 443) {
				to = o.Port
			}
		}
		return sv.Port, to
	}
	return 0, 0
}

// keeps reports whether requests for a host are the server's, even if it has no routes: those of a
// wider listener of the Gateway API are not for them. They are answered with 404.
func (sv server) keeps(host model.Host) bool {
	return sv.gateway.Kind == kinds.KubernetesGateway && host != "*" && sv.Hosts[0].Host == host
}

// commonHost returns the host that a VirtualService's host and one of the server's have in common:
// the narrower of the two.
func (sv server) commonHost(vs *model.VirtualService, host model.Host) (model.Host, bool) {
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

// gatewaySlots are the listener of a gateway's port, if anything is open on it, and the heads of
// its route tables.
func (b unitBuilder) gatewaySlots(s *scope.Scope, at scope.Address, report func(source.Problem)) []slot {
	var slots []slot
	tables := map[string]bool{}
	for _, sv := range serversOn(s, at) {
		if table := sv.tableOn(at); table != "" && sv.Broken == "" && !tables[table] {
			tables[table] = true
			slots = append(slots, slot{
				typ:  resource.Route,
				name: table,
				head: func() emitted { return b.tableHead(s, route.TableInput{Name: table, AnyPort: true}) },
			})
		}
	}
	open := b.gatewayPortOf(s, at, report)
	if !open.http && len(open.chains) == 0 {
		return slots
	}
	in := listener.GatewayInput{
		Name:        cmp.Or(at.Bind, "0.0.0.0") + "_" + portText(at.Port),
		Bind:        at.Bind,
		Port:        at.Port,
		Chains:      b.serverChains.List(open.chains),
		AuthFilters: b.authFiltersOf(s),
		Common:      b.common(s, model.ClientMode),
	}
	if open.http {
		in.RouteTable, in.GRPCWeb = plaintextTable(at), open.grpcWeb
	}
	return append(slots, slot{
		typ:  resource.Listener,
		name: in.Name,
		get: func() emitted {
			return b.gateways.with(in, b.listenerPatches(s, in.Name, in.Port, false))
		},
	})
}

// gatewayHostSlots returns the virtual host of a host in a table of a gateway's port. Its routes
// are those of all VirtualServices that are bound to the table's servers and have the host in
// common with them (gatewayRoutes). A server that redirects to https does so for its hosts even
// if they have no routes.
func (b unitBuilder) gatewayHostSlots(s *scope.Scope, u unit) []slot {
	port, host := u.port, u.host
	servers := serversOfTable(s, u.address(), u.table)
	owners := boundRoutes(s, servers, host)
	redirect := slices.ContainsFunc(servers, func(sv server) bool { return sv.redirects(host) }) ||
		slices.ContainsFunc(owners, func(o bound) bool { return o.redirect })
	keeps := slices.ContainsFunc(servers, func(sv server) bool { return sv.keeps(host) }) || keepsBeside(s, u, servers)
	belongsElsewhere, misdirected := misdirection(s, u, servers)
	switch {
	case misdirected:
		owners, redirect = nil, false
	case belongsElsewhere, len(owners) == 0 && !redirect && !keeps:
		return nil
	}
	called := port
	if len(owners) > 0 {
		called = owners[0].at.port
	}
	name := string(host) + ":" + portText(port)
	return []slot{{typ: resource.VirtualHost, table: u.table, name: name, get: func() emitted {
		in := b.vhostInput(s, gatewayRoutes(s, owners), route.Target{}, called)
		in.Domains = b.domains.List([]string{string(host)})
		in.RequireTLS, in.Misdirected, in.Strangers = redirect, misdirected, true
		if redirect {
			in.Port, in.SecurePort = redirectPorts(servers, owners, host)
		}
		in.GRPCWeb = slices.ContainsFunc(owners, func(o bound) bool { return o.grpcWeb })
		return b.vhosts.with(vhostKey{table: u.table, name: name, in: in}, b.hostPatches(s, u.table, name))
	}}}
}

// bound is a VirtualService that gives a gateway's virtual host routes, and the entry point of its
// requests.
type bound struct {
	vs       *model.VirtualService
	at       entryPoint
	redirect bool // to https, as one of the servers says
	grpcWeb  bool // one of the servers speaks gRPC-Web
}

// boundRoutes returns the VirtualServices that give a gateway's virtual host its routes, in the
// total order. One without a route for these servers leaves the host to a wider one.
func boundRoutes(s *scope.Scope, servers []server, host model.Host) []bound {
	var owners []bound
	seen := map[*model.VirtualService]bool{}
	for pattern := range host.Patterns() {
		for vs := range s.VirtualServicesOf(pattern) {
			if seen[vs] || !s.IsExported(vs.ExportTo, vs.Namespace) {
				continue
			}
			if b := boundAt(servers, vs, pattern, host); len(b.at.gateways) > 0 && routesHTTP(s, vs, b.at) {
				seen[vs] = true
				owners = append(owners, b)
			}
		}
	}
	slices.SortFunc(owners, func(a, b bound) int { return a.vs.Compare(&b.vs.Meta) })
	return owners
}

// boundAt binds a VirtualService by one of its hosts to all servers that have host in common with
// it. The first server's port is the one that callers mean.
func boundAt(servers []server, vs *model.VirtualService, pattern, host model.Host) bound {
	b := bound{vs: vs}
	for _, sv := range servers {
		if common, ok := sv.commonHost(vs, pattern); !ok || common != host || !sv.binds(vs) {
			continue
		}
		if len(b.at.gateways) == 0 {
			b.at.port = sv.Port
		}
		b.at.gateways = append(b.at.gateways, sv.name())
		if vs.Kind == kinds.Ingress {
			b.at.gateways = append(b.at.gateways, vs.Gateways...) // the server may be another Ingress's
		}
		b.redirect = b.redirect || sv.Redirect
		b.grpcWeb = b.grpcWeb || sv.Protocol == model.GRPCWeb
	}
	return b
}
