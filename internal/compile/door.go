package compile

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
)

// A gateway's port is for one of three: HTTP in plaintext, connections in plaintext, or TLS. The first server in the total order
// decides, and servers that want something else are reported and closed. HTTP servers share the port by their hosts; connections
// that are neither HTTP nor TLS cannot be told apart, so their first server has them all; with TLS each server name belongs
// to the first server that lists it, be that closed or not: another's routes and certificate must not stand in for its own.

// sort is what a port is for.
type sort uint8

const (
	sortHTTP sort = iota
	sortTCP
	sortTLS
)

func (sv server) sort() sort {
	switch {
	case sv.TLS != nil || sv.Protocol == model.TLS:
		return sortTLS
	case sv.Protocol.IsHTTP():
		return sortHTTP
	}
	return sortTCP
}

// entry is what a gateway's port turns out to be.
type entry struct {
	http  bool
	doors []listener.Door
}

// entryOf merges the servers of a port.
func (c compiler) entryOf(s *scope.Scope, port uint16, report func(source.Problem)) entry {
	servers := slices.DeleteFunc(serversOn(s, port), func(sv server) bool { return sv.Broken != "" && sv.sort() != sortTLS })
	i := slices.IndexFunc(servers, func(sv server) bool { return sv.Broken == "" })
	if i < 0 {
		return entry{}
	}
	first := servers[i]
	var open entry
	b := doorBuilder{chainBuilder: chainBuilder{compiler: c, scope: s, sni: map[string]bool{}}, owners: map[model.Host]server{}, report: report}
	if first.sort() == sortTLS {
		b.claim(servers)
	}
	for _, sv := range servers {
		switch kind := sv.sort(); {
		case kind != first.sort():
			sv.conflict(report, "spec.servers[%d].port", first, "has the port for another protocol; this server stays closed", "a port of its own")
		case kind == sortHTTP:
			open.http = true
		case kind == sortTLS:
			b.addServer(sv)
		case sv.is(first):
			b.addTCPServer(sv, nil)
		default:
			sv.conflict(report, "spec.servers[%d].port", first, "has the port; nothing tells its connections from those of this server, which stays closed", "a port of its own, or TLS")
		}
	}
	open.doors = b.doors
	if !slices.ContainsFunc(b.doors, func(d listener.Door) bool { return !d.Closed }) {
		open.doors = nil // nothing to open the port for
	}
	return open
}

// conflict reports what a server does not have because of another.
func (sv server) conflict(report func(source.Problem), path string, with server, message, want string) {
	if sv.Broken != "" {
		return
	}
	report(problemOf(&sv.gateway.Meta, source.Problem{
		Severity: source.Error, Path: fmt.Sprintf(path, sv.index), Value: portText(sv.Port),
		Message: with.gateway.Key().String() + " " + message, Want: want,
	}))
}

// doorBuilder gathers the doors of one port.
type doorBuilder struct {
	chainBuilder
	owners map[model.Host]server
	report func(source.Problem)
	doors  []listener.Door
}

// addServer adds a server with TLS.
func (b *doorBuilder) addServer(sv server) {
	names := b.claimed(sv)
	if len(names) == 0 {
		return
	}
	chain := listener.Chain{Name: sv.name() + "." + portText(sv.Port) + "." + sv.PortName, SNI: b.domains.List(names), Closed: true}
	switch {
	case sv.Broken != "" || !b.certified(sv):
		b.doors = append(b.doors, listener.Door{Chain: chain})
	case sv.Forwards():
		b.addForwards(sv, chain)
	case sv.Protocol == model.TLS:
		b.addPassthrough(sv, chain)
	case sv.Protocol.IsHTTP():
		chain.Closed = false
		b.doors = append(b.doors, listener.Door{Chain: chain, RouteTable: sv.tableOn(0), TLS: sv.TLS, FilesByAgent: b.filesByAgent(sv)})
	default:
		b.addTCPServer(sv, names)
	}
}

// filesByAgent tells that a server's certificates are files, which an agent serves.
func (b *doorBuilder) filesByAgent(sv server) bool {
	return b.scope.Settings().Agent && sv.TLS != nil && (len(sv.TLS.Files) > 0 || sv.TLS.CAFile != "")
}

// claim gives each server name to the first server that lists it.
func (b *doorBuilder) claim(servers []server) {
	for _, sv := range servers {
		if sv.sort() != sortTLS {
			continue
		}
		for _, h := range sv.Hosts {
			if _, taken := b.owners[h.Host]; !taken {
				b.owners[h.Host] = sv
			}
		}
	}
}

// claimed are the server names that a server has.
func (b *doorBuilder) claimed(sv server) []string {
	var names []string
	for _, h := range sv.Hosts {
		switch owner := b.owners[h.Host]; {
		case owner.is(sv) && !slices.Contains(names, string(h.Host)):
			names = append(names, string(h.Host))
		case !owner.is(sv):
			sv.conflict(b.report, "spec.servers[%d].hosts", owner, fmt.Sprintf("has %s on port %d", h.Host, sv.Port), "hosts of its own, or another port")
		}
	}
	return names
}

// certified tells whether a server may be open: all that it needs of Secrets and of an agent is there, or is bad, which keeps those
// closed that have had nothing better.
func (b *doorBuilder) certified(sv server) bool {
	if sv.TLS.Mode.OwnCertificate() && !b.scope.Settings().Agent {
		b.report(problemOf(&sv.gateway.Meta, source.Problem{
			Severity: source.Error, Path: fmt.Sprintf("spec.servers[%d].tls.mode", sv.index), Value: "ISTIO_MUTUAL",
			Message: "the gateway's workload in namespace " + b.scope.Namespace() + " has no agent that serves it a certificate of the mesh (" + noAgent + "); the server stays closed",
			Want:    "a gateway that an agent of Istio runs, or mode MUTUAL with a credentialName",
		}))
		return false
	}
	if sv.gateway.Selector.IsEmpty() { // else the world says so
		if p, lacks := b.scope.SecretProblem(sv.gateway, sv.index); lacks {
			b.report(problemOf(&sv.gateway.Meta, p))
		}
	}
	for _, name := range sv.TLS.Credentials {
		if _, holds := b.scope.Certificate(name); holds == model.Missing {
			return false
		}
	}
	if sv.TLS.CACredential == "" {
		return true
	}
	_, holds := b.scope.Authorities(sv.TLS.CACredential)
	return holds != model.Missing
}

// addPassthrough adds the TLS routes of a server that hands connections on; its names without a route are closed.
func (b *doorBuilder) addPassthrough(sv server, rest listener.Chain) {
	b.port = sv.Port
	for _, vs := range b.bound(sv) {
		for _, r := range vs.TLS {
			for _, m := range r.Matches {
				if !applies(b.scope, vs, conditions{m.Port, m.SourceLabels, m.SourceNamespace, m.Gateways}, sv.entrance()) {
					continue
				}
				within := slices.DeleteFunc(slices.Clone(m.SNIHosts), func(h model.Host) bool { return b.foreign(sv, vs, h) })
				if sni := b.fresh(within); len(sni) > 0 {
					chain := b.routed(string(within[0]), r.Destinations, r.Broken)
					chain.SNI = b.domains.List(sni)
					b.doors = append(b.doors, listener.Door{Chain: chain})
				}
			}
		}
	}
	b.doors = append(b.doors, listener.Door{Chain: rest})
}

// foreign tells whether a server name is none of the server's, or is another's.
func (b *doorBuilder) foreign(sv server, vs *model.VirtualService, sni model.Host) bool {
	if owner, taken := b.owners[sni]; taken && !owner.is(sv) {
		return true
	}
	return !slices.ContainsFunc(sv.Hosts, func(h model.ScopedHost) bool { return h.Covers(vs.Namespace, sni) })
}

// addTCPServer adds the TCP routes of a server: for all connections, or for those in TLS with its names.
func (b *doorBuilder) addTCPServer(sv server, names []string) {
	b.port = sv.Port
	add := func(chain listener.Chain) {
		chain.SNI = b.domains.List(names)
		b.doors = append(b.doors, listener.Door{Chain: chain, TLS: sv.TLS, FilesByAgent: b.filesByAgent(sv)})
	}
	for _, vs := range b.bound(sv) {
		if !slices.ContainsFunc(vs.Hosts, func(h model.Host) bool { _, ok := sv.meets(vs, h); return ok }) {
			continue
		}
		for _, r := range vs.TCP {
			chain, always, ok := b.tcpRoute(string(vs.Hosts[0]), vs, r, sv.entrance())
			if ok {
				add(chain)
			}
			if always {
				return
			}
		}
	}
	add(listener.Chain{Name: sv.name() + "." + portText(sv.Port), Closed: true})
}

// bound are the VirtualServices of a server's Gateway that the class sees, in the total order.
func (b *doorBuilder) bound(sv server) []*model.VirtualService {
	var found []*model.VirtualService
	for vs := range b.scope.VirtualServicesAt(sv.name()) {
		if b.scope.IsExported(vs.ExportTo, vs.Namespace) {
			found = append(found, vs)
		}
	}
	return found
}
