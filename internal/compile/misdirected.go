package compile

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Clients use a connection for all hosts of its certificate. A request for a host of another server
// with TLS on the port is answered with 421, whatever VirtualServices are bound to both: the other
// server may ask for client certificates. Clients then repeat it on a connection of its own.
//
// The listeners of one Gateway of the Gateway API list such hosts themselves
// (model.GatewayServer.Misdirected). Gateways of Istio and Ingresses meet in a class alone, so
// theirs are found here.

// sharesByClass reports whether the hosts of others on the server's port are found by class.
func (sv server) sharesByClass() bool {
	return sv.gateway.Kind != kinds.KubernetesGateway && sv.TLS != nil && sv.Protocol.IsHTTP()
}

// misdirectedHosts returns the hosts of other servers that a server answers with 421.
func misdirectedHosts(s *scope.Scope, sv server, at scope.Address) []model.Host {
	if !sv.sharesByClass() {
		return sv.Misdirected
	}
	return s.TLSHostsOn(at).Beside(sv.Hosts)
}

// misdirection says whether the requests of a virtual host belong to another server, by the most
// specific host that covers them. misdirected is whether the virtual host answers with 421 itself.
// Otherwise that of the other server's host does, as it is wider.
func misdirection(s *scope.Scope, u unit, servers []server) (belongsElsewhere, misdirected bool) {
	switch {
	case len(servers) == 0 || servers[0].TLS == nil:
		return false, false
	case !servers[0].sharesByClass():
		return listedMisdirection(u.host, servers)
	}
	hosts := s.TLSHostsOn(u.address())
	narrowest := hosts.Narrowest(u.host)
	switch {
	case u.host == "*" && hosts.AreMany() && !anyLists(servers, u.host):
		return true, true
	case narrowest == "" || anyLists(servers, narrowest):
		return false, false
	case hosts.AreMany() && !anyCovers(servers, narrowest):
		return true, false // that of "*" answers
	}
	return true, narrowest == u.host
}

// listedMisdirection is misdirection for servers that list the hosts of others.
func listedMisdirection(host model.Host, servers []server) (belongsElsewhere, misdirected bool) {
	for pattern := range host.Patterns() {
		if anyLists(servers, pattern) {
			return false, false
		}
		for _, sv := range servers {
			if _, found := slices.BinarySearch(sv.Misdirected, pattern); found {
				return true, pattern == host
			}
		}
	}
	return false, false
}

// keepsBeside reports whether requests for a host of the servers stay theirs even without routes,
// so that the 421 of another server's wider host does not answer them.
func keepsBeside(s *scope.Scope, u unit, servers []server) bool {
	if len(servers) == 0 || !servers[0].sharesByClass() || u.host == "*" || !anyLists(servers, u.host) {
		return false
	}
	hosts := s.TLSHostsOn(u.address())
	for pattern := range u.host.Patterns() {
		switch {
		case pattern == u.host:
		case anyLists(servers, pattern):
			return false
		case hosts.Lists(pattern):
			return true
		}
	}
	return hosts.AreMany()
}

func anyLists(servers []server, host model.Host) bool {
	return slices.ContainsFunc(servers, func(sv server) bool { return sv.lists(host) })
}

func anyCovers(servers []server, host model.Host) bool {
	return slices.ContainsFunc(servers, func(sv server) bool { return sv.covers(host) })
}

// addMisdirected adds what changed hosts of servers with TLS touch at other servers of their ports.
func (m *impact) addMisdirected(from, to *scope.Scope, found causes[unit]) {
	for _, p := range m.delta.Gateways {
		for _, g := range []*model.Gateway{p.Old, p.New} {
			if g == nil || !from.Applies(g) && !to.Applies(g) {
				continue
			}
			by := m.causeOf(g.Key())
			for i := range g.Servers {
				if sv := &g.Servers[i]; sv.HasTLS() {
					addHostsElsewhere(from, to, sv, func(u unit) { found.add(u, by) })
				}
			}
		}
	}
}

// addHostsElsewhere adds the virtual hosts of other servers that the hosts of one server change:
// none if the port had them already, and has them still.
func addHostsElsewhere(from, to *scope.Scope, changed *model.GatewayServer, found func(unit)) {
	at := to.AddressOf(changed)
	if !sharesByClass(from, at) && !sharesByClass(to, at) {
		return
	}
	was, is := from.TLSHostsOn(at), to.TLSHostsOn(at)
	for _, s := range []*scope.Scope{from, to} {
		for _, sv := range serversOn(s, at) {
			if !sv.sharesByClass() {
				continue
			}
			table := sv.tableOn(at)
			add := func(host model.Host) { found(gatewayHostUnit(at, table, host)) }
			for _, h := range changed.Hosts {
				if was.Lists(h.Host) != is.Lists(h.Host) {
					add(h.Host)
					addUnder(s, sv, h.Host, add)
				}
			}
			if was.AreMany() != is.AreMany() {
				for _, own := range sv.Hosts {
					add(own.Host)
				}
				for _, host := range append(was.Beside(sv.Hosts), is.Beside(sv.Hosts)...) {
					add(host)
				}
			}
		}
	}
}

func sharesByClass(s *scope.Scope, at scope.Address) bool {
	for _, of := range s.ServersOn(at) {
		if serverAt(of.Gateway, of.Index).sharesByClass() {
			return true
		}
	}
	return false
}

// addUnder adds the hosts below a wildcard that a server keeps, and those of its VirtualServices.
func addUnder(s *scope.Scope, sv server, wildcard model.Host, add func(model.Host)) {
	if !wildcard.IsWildcard() {
		return
	}
	for _, h := range sv.Hosts {
		if wildcard.Covers(h.Host) {
			add(h.Host)
		}
	}
	if !sv.covers(wildcard) {
		return
	}
	bound := s.VirtualServicesAt(sv.name())
	if sv.gateway.Kind == kinds.Ingress {
		bound = s.VirtualServicesAt(state.AnyIngress)
	}
	for vs := range bound {
		for _, host := range vs.Hosts {
			if wildcard.Covers(host) {
				add(host)
			}
		}
	}
}
