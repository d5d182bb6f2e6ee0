package compile

import (
	"fmt"
	"iter"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// The owner of a TCP port is the first service in the total order that has the port, among those
// that a class sees. Without interception only the port tells services apart, so the others are
// reported. TLS services are told apart by SNI and share the port. With interception the same holds
// among ServiceEntries without addresses. Services with virtual IPs, and those that are called by
// pod, have listeners at addresses (intercept.go).
//
// Many services may want one port. So a step looks at the owner and at the services that changed.
// Only when the owner is lost does it look at those after it, up to the first that the class sees.

// onPort returns the service that the class calls by a host, with its port, if the port has a TCP
// listener.
func onPort(s *scope.Scope, host model.Host, port uint16) (*model.Service, model.ServicePort) {
	if svc, p := takesBytes(s, host, port); svc != nil && (!s.Intercepts() || isLoose(s, svc, p)) {
		return svc, p
	}
	return nil, model.ServicePort{}
}

// takesBytes returns the service that the class calls by a host, with its port, if it may call the
// port by bytes.
func takesBytes(s *scope.Scope, host model.Host, port uint16) (*model.Service, model.ServicePort) {
	if svc := s.Service(host); svc != nil {
		if p, ok := svc.Port(port); ok && needsTCPListener(p.Protocol) && showsAt(s, svc, port, false) {
			return svc, p
		}
	}
	return nil, model.ServicePort{}
}

func isLoose(s *scope.Scope, svc *model.Service, p model.ServicePort) bool {
	_, loose := s.PortMatch(svc, p)
	return loose
}

// contends reports whether a service of onPort wants the port for itself.
func contends(s *scope.Scope, svc *model.Service, p model.ServicePort) bool {
	switch {
	case svc == nil:
		return false
	case s.Intercepts():
		kind, _ := s.PortMatch(svc, p)
		return kind == state.MatchPort
	}
	return p.Protocol != model.TLS
}

// contenders yields the services that may contend for a port. contendersAfter yields those that
// come after one of them.
func contenders(s *scope.Scope, port uint16) iter.Seq[*model.Service] {
	if s.Intercepts() {
		return s.ServicesByPortMatch(port, state.MatchPort)
	}
	return s.TCPServicesOn(port)
}

func contendersAfter(s *scope.Scope, port uint16, svc *model.Service) iter.Seq[*model.Service] {
	if s.Intercepts() {
		return s.ServicesByPortMatchAfter(port, state.MatchPort, svc)
	}
	return s.TCPServicesAfter(port, svc)
}

// proxyPort returns the HTTP proxy port where it conflicts with TCP listeners; 0 where it does not.
func proxyPort(s *scope.Scope) uint16 {
	if s.Intercepts() {
		return 0
	}
	return s.HTTPProxyPort()
}

// claimsTCP reports whether the class sees a service of contenders and its port contends.
func claimsTCP(s *scope.Scope, svc *model.Service, port uint16) bool {
	seen, p := onPort(s, svc.Host, port)
	return seen == svc && contends(s, seen, p)
}

// owner returns the owner of a port in the class's present scope: the first service of all, unless
// the class records another.
func (c *class) owner(s *scope.Scope, port uint16) *model.Service {
	if kept := c.owners[port]; kept != nil {
		return kept
	}
	return firstOwner(s, port)
}

// firstOwner returns the first service on a port if the class sees it; nil if not, though it may
// see a later one.
func firstOwner(s *scope.Scope, port uint16) *model.Service {
	if port == proxyPort(s) {
		return nil
	}
	for svc := range contenders(s, port) {
		if claimsTCP(s, svc, port) {
			return svc
		}
		break
	}
	return nil
}

// setOwner records an owner that firstOwner does not find.
func (c *class) setOwner(s *scope.Scope, port uint16, owner *model.Service) {
	kept := owner
	if owner == firstOwner(s, port) {
		kept = nil
	}
	switch kept {
	case c.owners[port]:
	case nil:
		own(c, borrowedOwners, &c.owners)
		delete(c.owners, port)
	default:
		own(c, borrowedOwners, &c.owners)
		c.owners[port] = kept
	}
}

// compilePort compiles a port from nothing.
func (c *class) compilePort(builder unitBuilder, s *scope.Scope, port uint16, e *edits) {
	builder.counts.compiled()
	var owner *model.Service
	if port != proxyPort(s) {
		for svc := range contenders(s, port) {
			if claimsTCP(s, svc, port) {
				owner = svc
				break
			}
		}
	}
	c.setOwner(s, port, owner)
	c.reportPort(builder, s, port, owner)
	for _, slot := range builder.portSlots(s, port, owner, c.hasRequests(port)) {
		e.put(slot)
	}
}

// reportPort reports all services that want a port and do not have it.
func (c *class) reportPort(builder unitBuilder, s *scope.Scope, port uint16, owner *model.Service) {
	for svc := range contenders(s, port) {
		c.reportLoser(builder, s, svc.Host, port, owner)
	}
	if port == proxyPort(s) {
		for svc := range s.TLSServicesOn(port) {
			c.reportLoser(builder, s, svc.Host, port, owner)
		}
	}
}

func (c *class) reportLoser(builder unitBuilder, s *scope.Scope, host model.Host, port uint16, owner *model.Service) {
	u := unit{kind: portKind{}, host: host, port: port}
	c.clearProblems(builder, u)
	svc, p := onPort(s, host, port)
	switch {
	case svc == nil:
	case port == proxyPort(s):
		c.reporter(builder, u)(portConflict(svc, port, "the HTTP proxy port of the sidecars"))
	case svc != owner && contends(s, svc, p):
		conflict := portConflict(svc, port, string(owner.Host))
		conflict.Code = source.OutboundConflict
		c.reporter(builder, u)(conflict)
	}
}

func portConflict(svc *model.Service, port uint16, with string) source.Problem {
	return problemOf(&svc.Meta, source.Problem{
		Severity: source.Warning, Path: "spec.ports", Value: portText(port),
		Message: fmt.Sprintf(
			"the TCP port of %s is also that of %s, which has it: workloads reach only that one by the port",
			svc.Host, with,
		),
		Want: "a port of its own for each TCP service, or protocol TLS, where SNI tells services apart",
	})
}

// stepPort compiles a port again on which some hosts may have changed.
func (c *class) stepPort(builder unitBuilder, port uint16, hosts causes[model.Host], to *scope.Scope, e *edits) {
	builder.counts.compiled()
	from := &c.scope
	old := c.owner(from, port)
	now := nextOwner(to, port, old, hosts)
	c.setOwner(to, port, now)
	dirty := old != now || e.toggled[port] || e.observes
	for _, h := range sortedKeys(hosts) {
		dirty = dirty || now != nil && now.Host == h || sharesListener(from, h, port) || sharesListener(to, h, port) ||
			filtersOf(from, h, port) != filtersOf(to, h, port)
		c.reportLoser(builder, to, h, port, now)
	}
	if hostOf(old) != hostOf(now) {
		c.reportPort(builder, to, port, now)
	}
	if !dirty || port == proxyPort(to) || ownsListener(to, portListener(to, port)) { // those are ownKind's
		return
	}
	slots := builder.portSlots(to, port, now, c.hasRequests(port))
	if len(slots) == 0 {
		e.remove(slot{typ: resource.Listener, name: portListener(to, port)})
	}
	for _, s := range slots {
		e.put(s)
	}
}

// sharesListener reports whether a host has a part of the port's listener beside others.
func sharesListener(s *scope.Scope, host model.Host, port uint16) bool {
	svc, p := onPort(s, host, port)
	return svc != nil && !contends(s, svc, p)
}

// portFilters are the filters that a port's listener has for requests to some hosts alone.
type portFilters struct{ grpcWeb, dynamicDNS bool }

// filtersOf returns the filters that requests to a port of a host need.
func filtersOf(s *scope.Scope, host model.Host, port uint16) portFilters {
	svc := s.Service(host)
	if svc == nil {
		return portFilters{}
	}
	p, has := svc.Port(port)
	requests := has && showsAt(s, svc, port, true)
	return portFilters{
		grpcWeb:    requests && p.Protocol == model.GRPCWeb,
		dynamicDNS: requests && p.Protocol.IsHTTP() && isLookedUp(s, svc),
	}
}

// hostOf returns what reportLoser reads of a port's owner.
func hostOf(owner *model.Service) model.Host {
	if owner == nil {
		return ""
	}
	return owner.Host
}

// nextOwner returns the owner of a port after the services of some hosts may have changed. The
// other services that the class sees come after the old owner, as before.
func nextOwner(s *scope.Scope, port uint16, old *model.Service, hosts causes[model.Host]) *model.Service {
	if port == proxyPort(s) {
		return nil
	}
	var best *model.Service
	lost := old != nil && hosts.has(old.Host)
	if !lost {
		best = old
	}
	for h := range hosts {
		if svc, p := onPort(s, h, port); contends(s, svc, p) && (best == nil || precedes(svc, best)) {
			best = svc
		}
	}
	if !lost || best != nil && !precedes(old, best) {
		return best
	}
	for svc := range contendersAfter(s, port, old) {
		if best != nil && precedes(best, svc) {
			break
		}
		if claimsTCP(s, svc, port) {
			return svc
		}
	}
	return best
}

func precedes(a, b *model.Service) bool {
	if order := a.Compare(&b.Meta); order != 0 {
		return order < 0
	}
	return a.Host < b.Host
}
