package compile

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
)

// A gateway's port has one purpose: HTTP in plaintext, connections in plaintext, or TLS. The first
// server in the total order decides. Servers that want something else are reported and stay closed.
//
// HTTP servers share the port by their hosts. Connections that are neither HTTP nor TLS cannot be
// told apart, so the first server has them all. With TLS each server name belongs to the first
// server that lists it, even if that one is closed: the routes and the certificate of another must
// not stand in for its own.

// portPurpose is what a gateway's port is for.
type portPurpose uint8

const (
	purposeHTTP portPurpose = iota
	purposeTCP
	purposeTLS
)

func (sv server) purpose() portPurpose {
	switch {
	case sv.HasTLS():
		return purposeTLS
	case sv.Protocol.IsHTTP():
		return purposeHTTP
	}
	return purposeTCP
}

// gatewayPort is what a gateway opens a port with: routed requests in plaintext, filter chains, or
// nothing.
type gatewayPort struct {
	http    bool
	grpcWeb bool // one of the servers with requests speaks gRPC-Web
	chains  []listener.ServerChain
}

// gatewayPortOf merges the servers of a port.
func (b unitBuilder) gatewayPortOf(s *scope.Scope, at scope.Address, report func(source.Problem)) gatewayPort {
	servers := slices.DeleteFunc(serversOn(s, at), func(sv server) bool {
		return sv.Broken != "" && sv.purpose() != purposeTLS
	})
	i := slices.IndexFunc(servers, func(sv server) bool { return sv.Broken == "" })
	if i < 0 {
		return gatewayPort{}
	}
	first := servers[i]
	var open gatewayPort
	chains := serverChainBuilder{
		chainBuilder: chainBuilder{unitBuilder: b, scope: s, sni: map[string]bool{}},
		owners:       map[model.Host]server{},
		report:       report,
	}
	if first.purpose() == purposeTLS {
		chains.claim(servers)
	}
	for _, sv := range servers {
		switch kind := sv.purpose(); {
		case kind != first.purpose():
			sv.reportConflict(report, conflict{
				part: "port", with: first, message: "has the port for another protocol; this server stays closed",
				want: "a port of its own",
			})
		case kind == purposeHTTP:
			open.http = true
			open.grpcWeb = open.grpcWeb || sv.Protocol == model.GRPCWeb
		case kind == purposeTLS:
			chains.addServer(sv)
		case sv.is(first):
			chains.addTCPServer(sv, nil)
		default:
			sv.reportConflict(report, conflict{
				part: "port", with: first, want: "a port of its own, or TLS",
				message: "has the port; nothing tells its connections from those of this server, which stays closed",
			})
		}
	}
	open.chains = chains.built
	if !slices.ContainsFunc(chains.built, func(d listener.ServerChain) bool { return !d.Closed }) {
		open.chains = nil // nothing to open the port for
	}
	return open
}

// conflict is what a part of a server lacks because another server has it.
type conflict struct {
	part          string // as model.Gateway.ServerField has it
	with          server
	message, want string
	harmless      bool
}

// reportConflict reports what a server does not have because another server has it.
func (sv server) reportConflict(report func(source.Problem), c conflict) {
	if sv.Broken != "" {
		return
	}
	severity := source.Error
	if c.harmless {
		severity = source.Warning
	}
	report(problemOf(&sv.gateway.Meta, source.Problem{
		Severity: severity, Path: sv.gateway.ServerField(sv.index, c.part), Value: portText(sv.Port),
		Message: c.with.gateway.Key().String() + " " + c.message, Want: c.want,
	}))
}

// reportClaimed reports a server name that belongs to another server. Ingresses of one host share
// their paths, so one of them lacks no more than its certificate there.
func (sv server) reportClaimed(report func(source.Problem), host model.Host, owner server) {
	c := conflict{
		part: "hosts", with: owner, message: fmt.Sprintf("has %s on port %d", host, sv.Port),
		want: "hosts of its own, or another port",
	}
	if sv.gateway.Kind == kinds.Ingress && owner.gateway.Kind == kinds.Ingress && owner.Broken == "" {
		if owner.TLS == sv.TLS || model.Equal(owner.TLS, sv.TLS) {
			return
		}
		c.harmless = true
		c.message += " and comes first: its certificate is used"
		c.want = "one secretName for each host"
	}
	sv.reportConflict(report, c)
}

// serverChainBuilder gathers the filter chains of the servers on one port.
type serverChainBuilder struct {
	chainBuilder
	owners map[model.Host]server
	report func(source.Problem)
	built  []listener.ServerChain
}

// addServer adds the chains of a server with TLS.
func (b *serverChainBuilder) addServer(sv server) {
	names := b.claimedNames(sv)
	if len(names) == 0 {
		return
	}
	chain := listener.Chain{
		Name:   sv.name() + "." + portText(sv.Port) + "." + sv.PortName,
		SNI:    b.domains.List(names),
		Closed: true,
	}
	switch {
	case sv.Broken != "" || !b.canOpen(sv):
		b.built = append(b.built, listener.ServerChain{Chain: chain})
	case sv.Forwards():
		b.addForwards(sv, chain)
	case sv.Protocol == model.TLS:
		b.addPassthrough(sv, chain)
	case sv.Protocol.IsHTTP():
		chain.Closed = false
		b.built = append(b.built, listener.ServerChain{
			Chain:        chain,
			RouteTable:   sv.tableOn(scope.Address{}),
			TLS:          sv.TLS,
			FilesByAgent: b.filesByAgent(sv),
		})
	default:
		b.addTCPServer(sv, names)
	}
}

// filesByAgent reports whether a server's certificates are files that an agent serves.
func (b *serverChainBuilder) filesByAgent(sv server) bool {
	return b.scope.Settings().Agent && sv.TLS != nil && (len(sv.TLS.Files) > 0 || sv.TLS.CAFile != "")
}

// claim gives each server name to the first server that lists it.
func (b *serverChainBuilder) claim(servers []server) {
	for _, sv := range servers {
		if sv.purpose() != purposeTLS {
			continue
		}
		for _, h := range sv.Hosts {
			if _, taken := b.owners[h.Host]; !taken {
				b.owners[h.Host] = sv
			}
		}
	}
}

// claimedNames returns the server names that belong to a server, and reports those that belong to
// another.
func (b *serverChainBuilder) claimedNames(sv server) []string {
	var names []string
	for _, h := range sv.Hosts {
		switch owner := b.owners[h.Host]; {
		case owner.is(sv) && !slices.Contains(names, string(h.Host)):
			names = append(names, string(h.Host))
		case !owner.is(sv):
			sv.reportClaimed(b.report, h.Host, owner)
		}
	}
	return names
}

// canOpen reports whether a server may be open: whether the Secrets and the agent that it needs are
// there. A Secret that cannot be used counts as there. Envoys keep what they had before; those that
// had nothing keep the server closed.
func (b *serverChainBuilder) canOpen(sv server) bool {
	if sv.TLS.Mode.OwnCertificate() && !b.scope.Settings().Agent {
		b.report(problemOf(&sv.gateway.Meta, source.Problem{
			Severity: source.Error, Path: sv.gateway.ServerField(sv.index, "tls") + ".mode", Value: "ISTIO_MUTUAL",
			Message: "the gateway's workload in namespace " + b.scope.Namespace() + " has no agent that serves " +
				"it a certificate of the mesh (" + noAgent + "); the server stays closed",
			Want: "a gateway that an agent of Istio runs, or mode MUTUAL with a credentialName",
		}))
		return false
	}
	if p, denied := b.scope.CredentialsProblem(sv.gateway, sv.index); denied {
		b.report(problemOf(&sv.gateway.Meta, p))
		return false
	}
	if sv.gateway.Selector.IsEmpty() { // the snapshot reports it for the others
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

// addPassthrough adds the TLS routes of a server that passes connections through. Its names without
// a route are closed.
func (b *serverChainBuilder) addPassthrough(sv server, rest listener.Chain) {
	b.port = sv.Port
	for _, vs := range b.virtualServices(sv) {
		for _, r := range vs.TLS {
			for _, m := range r.Matches {
				if !applies(
					b.scope, vs, conditions{m.Port, m.SourceLabels, m.SourceNamespace, m.Gateways}, sv.entryPoint(),
				) {
					continue
				}
				within := slices.DeleteFunc(slices.Clone(m.SNIHosts), func(h model.Host) bool {
					return b.isForeign(sv, vs, h)
				})
				if sni := b.unclaimed(within); len(sni) > 0 {
					chain := b.routedChain(string(within[0]), r.Destinations, r.Broken)
					chain.SNI = b.domains.List(sni)
					b.built = append(b.built, listener.ServerChain{Chain: chain})
				}
			}
		}
	}
	b.built = append(b.built, listener.ServerChain{Chain: rest})
}

// isForeign reports whether a server name is not one of the server's, or belongs to another server.
func (b *serverChainBuilder) isForeign(sv server, vs *model.VirtualService, sni model.Host) bool {
	if owner, taken := b.owners[sni]; taken && !owner.is(sv) {
		return true
	}
	return !slices.ContainsFunc(sv.Hosts, func(h model.ScopedHost) bool { return h.Covers(vs.Namespace, sni) })
}

// addTCPServer adds the TCP routes of a server: for all connections, or with names for those in TLS
// that ask for one.
func (b *serverChainBuilder) addTCPServer(sv server, names []string) {
	b.port = sv.Port
	add := func(chain listener.Chain) {
		chain.SNI = b.domains.List(names)
		b.built = append(b.built, listener.ServerChain{Chain: chain, TLS: sv.TLS, FilesByAgent: b.filesByAgent(sv)})
	}
	for _, vs := range b.virtualServices(sv) {
		if !slices.ContainsFunc(vs.Hosts, func(h model.Host) bool { _, ok := sv.commonHost(vs, h); return ok }) {
			continue
		}
		if vs.Kind == kinds.TLSRoute && len(names) > 0 {
			b.addByServerName(sv, vs)
			continue
		}
		for _, r := range vs.TCP {
			chain, always, ok := b.tcpRoute(string(vs.Hosts[0]), vs, r, sv.entryPoint())
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

// addByServerName adds the rules of a TLSRoute at a server that terminates TLS: each is for
// connections that ask for one of the route's hosts, as where TLS is passed through. Connections of
// other names must not reach its backends.
func (b *serverChainBuilder) addByServerName(sv server, vs *model.VirtualService) {
	for _, r := range vs.TLS {
		for _, m := range r.Matches {
			within := slices.DeleteFunc(slices.Clone(m.SNIHosts), func(h model.Host) bool {
				return b.isForeign(sv, vs, h)
			})
			if sni := b.unclaimed(within); len(sni) > 0 {
				chain := b.routedChain(string(within[0]), r.Destinations, r.Broken)
				chain.SNI = b.domains.List(sni)
				b.built = append(b.built, listener.ServerChain{
					Chain: chain, TLS: sv.TLS, FilesByAgent: b.filesByAgent(sv),
				})
			}
		}
	}
}

// virtualServices returns the VirtualServices of a server's Gateway that the class sees, in the
// total order.
func (b *serverChainBuilder) virtualServices(sv server) []*model.VirtualService {
	var found []*model.VirtualService
	for vs := range b.scope.VirtualServicesAt(sv.name()) {
		if b.scope.IsExported(vs.ExportTo, vs.Namespace) {
			found = append(found, vs)
		}
	}
	return found
}
