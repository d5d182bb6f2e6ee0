package compile

import (
	"net/netip"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A Sidecar may have listeners of their own for calls (model.EgressListener). At the port of one,
// its hosts are called and no others: the services of other listeners have neither virtual hosts
// nor TCP listeners there.
//
//	requests       ownKind has the listener, hostKind the virtual hosts, in the table "<port>". A
//	               listener for all ports of its hosts has a table with names as on the HTTP proxy
//	               port: "http_proxy_<port>", or the Unix socket.
//	bytes          The port is compiled as any other (port.go), at the listener's address.
//	redirected     A listener without an address of its own only limits who has a part of the
//	               port's listeners (intercept.go). ownKind has all others, those of bytes too.

// showsAt reports whether the class calls a service at a port, by requests or else by bytes.
func showsAt(s *scope.Scope, svc *model.Service, port uint16, requests bool) bool {
	if !s.LimitsPorts() {
		return true
	}
	l := s.EgressPort(port)
	if l != nil && (l.NamesPorts() || l.Requests != requests) {
		return false
	}
	return s.Shows(l, svc.Namespace, svc.Host)
}

// shownBy reports whether requests to a host and port come in by a listener of a Sidecar, or with
// nil by one that is not of its own.
func (h hostPort) shownBy(s *scope.Scope, l *model.EgressListener) bool {
	switch {
	case !s.LimitsPorts():
		return true
	case l != nil && !l.NamesPorts() && l.Port != h.port:
		return false
	}
	if svc := s.Service(h.host); svc != nil {
		return s.Shows(l, svc.Namespace, svc.Host)
	}
	return s.ShowsRoutes(l, h.routes)
}

// egressTable returns the name of the route table of a Sidecar's listener.
func egressTable(l *model.EgressListener) string {
	switch {
	case l.Port == 0:
		return l.Bind
	case l.NamesPorts():
		return httpProxyTable + "_" + portText(l.Port)
	}
	return portText(l.Port)
}

// egressVhosts returns the virtual hosts of a host and port in the tables of a Sidecar's listeners.
func (b unitBuilder) egressVhosts(s *scope.Scope, h hostPort) (slots []slot) {
	for _, l := range s.EgressListeners() {
		if !hasTable(s, l) || !h.shownBy(s, l) {
			continue
		}
		domains := func() []string { return b.interceptedNames(s, h) }
		if l.NamesPorts() {
			domains = func() []string { return withPorts(b.names(s, h.host, h.port), h.port) }
		}
		slots = append(slots, b.vhostSlot(s, egressTable(l), h, domains))
	}
	return slots
}

// egressAddress is where a Sidecar's listener takes calls.
type egressAddress struct {
	name   string // of the listener
	bind   string // an address or a placeholder; empty for any address
	toPort bool   // it has the port, and does not only get redirected connections
}

func addressOf(s *scope.Scope, l *model.EgressListener) egressAddress {
	at := egressAddress{bind: l.Bind, toPort: !s.Intercepts() || l.OwnPort || l.Port == 0}
	address := l.Bind
	switch wildcards := s.Settings().Stack.Wildcards(); {
	case !at.toPort && !hasAddress(l):
		at.bind, address = "", wildcards[0]
	case l.Bind == "" && s.Intercepts() && wildcards[0] == "::":
		at.bind, address = "::1", "::1"
	case l.Bind == "" || l.Bind == "127.0.0.1":
		at.bind, address = model.OwnOutbound, "127.0.0.1"
	case l.Bind == "0.0.0.0":
		at.bind = model.OwnAny4
	case l.Bind == "::":
		at.bind = model.OwnAny6
	}
	at.name = address + "_" + portText(l.Port)
	return at
}

// hasAddress reports whether a listener is at one address, and not at all.
func hasAddress(l *model.EgressListener) bool {
	ip, err := netip.ParseAddr(l.Bind)
	return l.Bind != "" && (err != nil || !ip.IsUnspecified())
}

// isOwnUnits reports whether ownKind has a Sidecar's listener.
func isOwnUnits(s *scope.Scope, l *model.EgressListener) bool {
	switch {
	case meetsProxyPort(s, l):
		return false
	case !s.Intercepts():
		return l.Requests
	}
	return l.OwnPort || l.NamesPorts() || hasAddress(l)
}

// meetsProxyPort reports whether a Sidecar's listener is where the HTTP proxy port is.
func meetsProxyPort(s *scope.Scope, l *model.EgressListener) bool {
	return l.Port != 0 && l.Port == s.HTTPProxyPort() && addressOf(s, l).name == proxyListener(l.Port)
}

// ownsListener reports whether ownKind has a listener of a Sidecar with this name.
func ownsListener(s *scope.Scope, name string) bool {
	return slices.ContainsFunc(s.EgressListeners(), func(l *model.EgressListener) bool {
		return isOwnUnits(s, l) && addressOf(s, l).name == name
	})
}

// hasTable reports whether there is a route table for a Sidecar's listener.
func hasTable(s *scope.Scope, l *model.EgressListener) bool {
	return l.Requests && (isOwnUnits(s, l) || s.Intercepts() && !l.NamesPorts())
}

// hasOwnTable reports whether the route table of a port exists even without hosts, because a
// listener of ownKind has it.
func hasOwnTable(s *scope.Scope, port uint16) bool {
	l := s.EgressPort(port)
	return l != nil && l.Requests && !l.NamesPorts() && isOwnUnits(s, l)
}

// egressSlots returns the listeners of a Sidecar's egress that ownKind has.
func (b unitBuilder) egressSlots(s *scope.Scope, report func(source.Problem)) (slots []slot) {
	for _, l := range s.EgressListeners() {
		switch at := addressOf(s, l); {
		case meetsProxyPort(s, l):
			report(problemOf(&s.Sidecar().Meta, source.Problem{
				Severity: source.Warning, Path: "spec.egress", Value: portText(l.Port),
				Message: "is also the HTTP proxy port of the sidecars, which has it there", Want: "another port",
				Code: source.OutboundConflict,
			}))
		case !isOwnUnits(s, l):
		case l.Requests:
			slots = append(slots, b.requestListener(s, l, at)...)
		default:
			slots = append(slots, b.byteListener(s, l, at)...)
		}
	}
	return slots
}

// requestListener returns a listener of requests, and of its table what no host has. The head of a
// port's table is edited where virtual hosts come and go (toggleRequests).
func (b unitBuilder) requestListener(s *scope.Scope, l *model.EgressListener, at egressAddress) []slot {
	table := egressTable(l)
	slots := []slot{
		{typ: resource.Listener, name: at.name, get: func() emitted {
			return b.proxies.with(listener.HTTPInput{
				Name: at.name, Bind: at.bind, Port: l.Port, BindToPort: at.toPort, RouteTable: table,
				ProxyUnknown: !s.Intercepts(), DynamicDNS: s.Settings().DynamicDNS,
				Common: b.common(s, model.ClientMode),
			}, b.listenerPatches(s, at.name, l.Port, false))
		}},
		{typ: resource.VirtualHost, table: table, name: fallbackName(s), get: func() emitted {
			return b.fallback(s, table)
		}},
	}
	if l.NamesPorts() {
		slots = append(slots, slot{typ: resource.Route, name: table, head: func() emitted {
			return b.tableHead(s, route.TableInput{Name: table})
		}})
	}
	return slots
}

// byteListener returns a listener of bytes beside those of redirected connections: for the first
// TCP service that has the port, and all TLS services.
func (b unitBuilder) byteListener(s *scope.Scope, l *model.EgressListener, at egressAddress) []slot {
	chains := b.chainsOn(s, l.Port)
	for svc := range s.TLSServicesOn(l.Port) {
		if seen, p := takesBytes(s, svc.Host, l.Port); seen == svc && p.Protocol == model.TLS {
			chains.addTLS(svc)
		}
	}
	for svc := range s.TCPServicesOn(l.Port) {
		if seen, p := takesBytes(s, svc.Host, l.Port); seen == svc && p.Protocol != model.TLS {
			chains.addTCP(svc)
			break
		}
	}
	if len(chains.found) == 0 {
		return nil
	}
	return []slot{{typ: resource.Listener, name: at.name, get: func() emitted {
		return b.tcp.with(listener.TCPInput{
			Name: at.name, Bind: at.bind, Port: l.Port, BindToPort: at.toPort, Chains: b.chains.List(chains.found),
			Common: b.common(s, model.ClientMode),
		}, b.listenerPatches(s, at.name, l.Port, false))
	}}}
}

// egressChanged reports whether a service changed that a listener of bytes of ownKind may lead to,
// and because of what.
func (m *impact) egressChanged(to *scope.Scope) (by cause, changed bool) {
	for _, l := range to.EgressListeners() {
		if l.Requests || !isOwnUnits(to, l) {
			continue
		}
		for _, is := range m.ports[l.Port] {
			if !changed || is < by {
				by, changed = is, true
			}
		}
	}
	return by, changed
}

// reportMisfits reports the ports of a host that a listener of a Sidecar shows and that speak what
// it does not take.
func reportMisfits(s *scope.Scope, host model.Host, report func(source.Problem)) {
	if !s.LimitsPorts() {
		return
	}
	svc := s.Service(host)
	if svc == nil {
		return
	}
	for _, p := range svc.Ports {
		l := s.EgressPort(p.Port)
		if l == nil || l.NamesPorts() || !s.Shows(l, svc.Namespace, svc.Host) {
			continue
		}
		takes, want := "bytes", "protocol HTTP of the listener"
		fits := needsTCPListener(p.Protocol)
		if l.Requests {
			takes, want, fits = "requests", "protocol TCP or TLS of the listener", mayBeHTTP(p)
		}
		if fits || p.Protocol == model.UDP {
			continue
		}
		report(problemOf(&s.Sidecar().Meta, source.Problem{
			Severity: source.Warning, Path: "spec.egress", Value: portText(p.Port),
			Message: "has a listener that takes " + takes + "; there it does not lead to " + string(host) +
				", whose port speaks " + p.Protocol.String(),
			Want: want,
		}))
	}
}
