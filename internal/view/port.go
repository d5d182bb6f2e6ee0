package view

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// The owner of a TCP port is the first service in the total order, of those that a class sees, that has it: without
// interception nothing but the port tells services apart. The others are reported. TLS services are told apart by SNI, and
// have the port together.
//
// Many services may want one port, so a step looks at the owner and at the services that changed, and only when the owner is
// lost at those after it, up to the first that the class sees.

// onPort is the service that the class calls by a host, with its port, if the port gets a listener of its own.
func onPort(s *scope.Scope, host model.Host, port uint16) (*model.Service, model.ServicePort) {
	if svc := s.Service(host); svc != nil {
		if p, ok := svc.Port(port); ok && explicit(p.Protocol) {
			return svc, p
		}
	}
	return nil, model.ServicePort{}
}

// claimsTCP tells whether the class sees a service of World.TCPServicesOn, and by this protocol.
func claimsTCP(s *scope.Scope, svc *model.Service, port uint16) bool {
	seen, p := onPort(s, svc.Host, port)
	return seen == svc && p.Protocol != model.TLS
}

// owner is the owner of a port as of the class's present scope: the first service of all, unless the class keeps another.
func (c *class) owner(s *scope.Scope, port uint16) *model.Service {
	if kept := c.owners[port]; kept != nil {
		return kept
	}
	return firstOwner(s, port)
}

// firstOwner is the first service on a port if the class sees it, nil if not: then it may see a later one.
func firstOwner(s *scope.Scope, port uint16) *model.Service {
	if port == s.HTTPProxyPort() {
		return nil
	}
	for svc := range s.World.TCPServicesOn(port) {
		if claimsTCP(s, svc, port) {
			return svc
		}
		break
	}
	return nil
}

// keep notes an owner where firstOwner does not find it.
func (c *class) keep(s *scope.Scope, port uint16, owner *model.Service) {
	if owner == firstOwner(s, port) {
		delete(c.owners, port)
		return
	}
	c.owners[port] = owner
}

// fillPort compiles a port from nothing.
func (c *class) fillPort(comp compiler, s *scope.Scope, port uint16, e *edits) {
	comp.work.Units++
	var owner *model.Service
	if port != s.HTTPProxyPort() {
		for svc := range s.World.TCPServicesOn(port) {
			if claimsTCP(s, svc, port) {
				owner = svc
				break
			}
		}
	}
	c.keep(s, port, owner)
	c.reportPort(comp, s, port, owner)
	for _, slot := range comp.tcpSlots(s, port, owner) {
		e.put(slot)
	}
}

// reportPort reports all that do not have a port that they want.
func (c *class) reportPort(comp compiler, s *scope.Scope, port uint16, owner *model.Service) {
	for svc := range s.World.TCPServicesOn(port) {
		c.reportLoser(comp, s, svc.Host, port, owner)
	}
	if port == s.HTTPProxyPort() {
		for svc := range s.World.TLSServicesOn(port) {
			c.reportLoser(comp, s, svc.Host, port, owner)
		}
	}
}

func (c *class) reportLoser(comp compiler, s *scope.Scope, host model.Host, port uint16, owner *model.Service) {
	u := unit{kind: unitPort, host: host, port: port}
	c.settled(comp, u)
	svc, p := onPort(s, host, port)
	switch {
	case svc == nil:
	case port == s.HTTPProxyPort():
		c.reporter(comp, u)(clash(svc, port, "the HTTP proxy port of the sidecars"))
	case svc != owner && p.Protocol != model.TLS:
		c.reporter(comp, u)(clash(svc, port, string(owner.Host)))
	}
}

func clash(svc *model.Service, port uint16, with string) source.Problem {
	return problemOf(&svc.Meta, source.Problem{
		Severity: source.Warning, Path: "spec.ports", Value: portText(port),
		Message: fmt.Sprintf("the TCP port of %s is also that of %s, which has it: workloads reach only that one by the port", svc.Host, with),
		Want:    "a port of its own for each TCP service, or protocol TLS, where SNI tells services apart",
	})
}

// stepPort compiles a port again on which some hosts may have changed.
func (c *class) stepPort(comp compiler, port uint16, hosts map[model.Host]bool, to *scope.Scope, e *edits) {
	comp.work.Units++
	from := c.scope
	old := c.owner(from, port)
	now := nextOwner(to, port, old, hosts)
	c.keep(to, port, now)
	dirty := old != now
	for _, h := range slices.Sorted(maps.Keys(hosts)) {
		_, before := onPort(from, h, port)
		_, after := onPort(to, h, port)
		dirty = dirty || now != nil && now.Host == h || before.Protocol == model.TLS || after.Protocol == model.TLS
		c.reportLoser(comp, to, h, port, now)
	}
	if hostOf(old) != hostOf(now) {
		c.reportPort(comp, to, port, now)
	}
	if !dirty || port == to.HTTPProxyPort() { // that listener is unitOwn's
		return
	}
	slots := comp.tcpSlots(to, port, now)
	if len(slots) == 0 {
		e.remove(slot{typ: Listener, name: tcpListener(port)})
	}
	for _, s := range slots {
		e.put(s)
	}
}

func hostOf(s *model.Service) model.Host {
	if s == nil {
		return ""
	}
	return s.Host
}

// nextOwner is the owner of a port after the services of some hosts may have changed. The others that the class sees come
// after the old owner, as they did.
func nextOwner(s *scope.Scope, port uint16, old *model.Service, hosts map[model.Host]bool) *model.Service {
	if port == s.HTTPProxyPort() {
		return nil
	}
	var best *model.Service
	lost := old != nil && hosts[old.Host]
	if !lost {
		best = old
	}
	for h := range hosts {
		if svc, p := onPort(s, h, port); svc != nil && p.Protocol != model.TLS && (best == nil || precedes(svc, best)) {
			best = svc
		}
	}
	if !lost || best != nil && !precedes(old, best) {
		return best
	}
	for svc := range s.World.TCPServicesAfter(port, old) {
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
