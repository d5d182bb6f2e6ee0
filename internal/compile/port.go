package compile

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// The owner of a TCP port is the first service in the total order, of those that a class sees, that has it: without
// interception nothing but the port tells services apart. The others are reported. TLS services are told apart by SNI, and
// have the port together. With interception that is so among services without virtual IPs; those with have listeners of
// their own (intercept.go).
//
// Many services may want one port, so a step looks at the owner and at the services that changed, and only when the owner is
// lost at those after it, up to the first that the class sees.

// onPort is the service that the class calls by a host, with its port, if the port gets a listener of its own.
func onPort(s *scope.Scope, host model.Host, port uint16) (*model.Service, model.ServicePort) {
	if svc := s.Service(host); svc != nil {
		if p, ok := svc.Port(port); ok && explicit(p.Protocol) && (!s.Intercepts() || isLoose(svc, p)) {
			return svc, p
		}
	}
	return nil, model.ServicePort{}
}

func isLoose(svc *model.Service, p model.ServicePort) bool {
	_, loose := state.PortMatchOf(svc, p)
	return loose
}

// contends tells whether a service of onPort wants the port for itself.
func contends(s *scope.Scope, svc *model.Service, p model.ServicePort) bool {
	switch {
	case svc == nil:
		return false
	case s.Intercepts():
		kind, _ := state.PortMatchOf(svc, p)
		return kind == state.MatchPort
	}
	return p.Protocol != model.TLS
}

// contenders yields the services that may contend for a port, and contendersAfter those that come after one of them.
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

// proxyPort is the HTTP proxy port where it and the TCP listeners are in each other's way; 0 where they are not.
func proxyPort(s *scope.Scope) uint16 {
	if s.Intercepts() {
		return 0
	}
	return s.HTTPProxyPort()
}

// claimsTCP tells whether the class sees a service of contenders, and by this protocol.
func claimsTCP(s *scope.Scope, svc *model.Service, port uint16) bool {
	seen, p := onPort(s, svc.Host, port)
	return seen == svc && contends(s, seen, p)
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
	if port != proxyPort(s) {
		for svc := range contenders(s, port) {
			if claimsTCP(s, svc, port) {
				owner = svc
				break
			}
		}
	}
	c.keep(s, port, owner)
	c.reportPort(comp, s, port, owner)
	for _, slot := range comp.portSlots(s, port, owner, c.hasRequests(port)) {
		e.put(slot)
	}
}

// reportPort reports all that do not have a port that they want.
func (c *class) reportPort(comp compiler, s *scope.Scope, port uint16, owner *model.Service) {
	for svc := range contenders(s, port) {
		c.reportLoser(comp, s, svc.Host, port, owner)
	}
	if port == proxyPort(s) {
		for svc := range s.TLSServicesOn(port) {
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
	case port == proxyPort(s):
		c.reporter(comp, u)(clash(svc, port, "the HTTP proxy port of the sidecars"))
	case s.Intercepts() && svc.Headless && owner != nil && owner.Headless: // each connection goes to the pod that it was for
	case svc != owner && contends(s, svc, p):
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
	from := &c.scope
	old := c.owner(from, port)
	now := nextOwner(to, port, old, hosts)
	c.keep(to, port, now)
	dirty := old != now || e.turned[port]
	for _, h := range slices.Sorted(maps.Keys(hosts)) {
		dirty = dirty || now != nil && now.Host == h || shares(from, h, port) || shares(to, h, port)
		c.reportLoser(comp, to, h, port, now)
	}
	if tellsOthers(old) != tellsOthers(now) {
		c.reportPort(comp, to, port, now)
	}
	if !dirty || port == proxyPort(to) { // that listener is unitOwn's
		return
	}
	slots := comp.portSlots(to, port, now, c.hasRequests(port))
	if len(slots) == 0 {
		e.remove(slot{typ: resource.Listener, name: portListener(to, port)})
	}
	for _, s := range slots {
		e.put(s)
	}
}

// shares tells whether a host has a part of the port's listener beside others.
func shares(s *scope.Scope, host model.Host, port uint16) bool {
	svc, p := onPort(s, host, port)
	return svc != nil && !contends(s, svc, p)
}

// ownership is what reportLoser reads of a port's owner.
type ownership struct {
	host     model.Host
	headless bool
}

func tellsOthers(owner *model.Service) ownership {
	if owner == nil {
		return ownership{}
	}
	return ownership{owner.Host, owner.Headless}
}

// nextOwner is the owner of a port after the services of some hosts may have changed. The others that the class sees come
// after the old owner, as they did.
func nextOwner(s *scope.Scope, port uint16, old *model.Service, hosts map[model.Host]bool) *model.Service {
	if port == proxyPort(s) {
		return nil
	}
	var best *model.Service
	lost := old != nil && hosts[old.Host]
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
