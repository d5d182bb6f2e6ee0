package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// of adds to the impact what it means for one class that another Sidecar is in force for it, or the same one changed: the
// hosts that only one of them lets in, and what hangs on these. It is not narrow when everything that the class has may be
// touched: then it is compiled from nothing, which the memo makes cheap and the sets make small on the wire.
func (m *impact) of(from, to *scope.Scope) (of *impact, narrow bool) {
	if m.delta.Mesh {
		return m, false
	}
	if from.Sidecar() == to.Sidecar() {
		return m, true
	}
	if from.Intercepts() && from.RegistryOnly() != to.RegistryOnly() {
		return m, false // unknown destinations are a part of each port
	}
	changed, narrow := egressChange(from, to)
	if !narrow {
		return m, false
	}
	of = m.clone()
	of.own = true
	of.steps = nil
	for _, h := range changed {
		for _, w := range m.both() {
			of.listed(w, h)
		}
	}
	return of, true
}

func (m *impact) clone() *impact {
	c := *m
	c.hosts, c.endpoints, c.virtual, c.seen = maps.Clone(m.hosts), maps.Clone(m.endpoints), maps.Clone(m.virtual), maps.Clone(m.seen)
	c.vips = maps.Clone(m.vips)
	c.ports = map[uint16]map[model.Host]bool{}
	for port, hosts := range m.ports {
		c.ports[port] = maps.Clone(hosts)
	}
	return &c
}

// egressChange are the hosts that only one of two Sidecars lets in.
func egressChange(from, to *scope.Scope) (changed []model.ScopedHost, narrow bool) {
	before, all := from.Egress()
	after, none := to.Egress()
	if all || none {
		return nil, all == none
	}
	sides := map[model.ScopedHost]uint8{}
	for _, h := range before {
		sides[h] |= 1
	}
	for _, h := range after {
		sides[h] |= 2
	}
	for h, side := range sides {
		switch {
		case side == 1|2:
		case h.Namespace == "*" && h.Host == "*":
			return nil, false
		default:
			changed = append(changed, h)
		}
	}
	return changed, true
}

// listed adds what comes into or out of sight when a Sidecar begins or ceases to list a host.
func (m *impact) listed(w *state.Snapshot, h model.ScopedHost) {
	switch {
	case !h.Host.IsWildcard():
		m.claims(h.Host)
		for pattern := range h.Host.Patterns() {
			for vs := range w.VirtualServicesOf(pattern) {
				m.listedRoutes(vs, h)
			}
		}
	case h.Namespace == "*":
		for host := range w.HostsUnder(h.Host) {
			m.claims(host)
		}
		for vs := range w.VirtualServices() {
			m.listedRoutes(vs, h)
		}
	default:
		for svc := range w.ServicesIn(h.Namespace) {
			if h.Host.Covers(svc.Host) {
				m.claims(svc.Host)
			}
		}
		for vs := range w.VirtualServicesIn(h.Namespace) {
			m.listedRoutes(vs, h)
		}
	}
}

// listedRoutes adds what hangs on a VirtualService that a listed host lets in: its destinations are seen because of it.
func (m *impact) listedRoutes(vs *model.VirtualService, h model.ScopedHost) {
	if h.Namespace != "*" && h.Namespace != vs.Namespace || !slices.ContainsFunc(vs.Hosts, h.Host.Overlaps) {
		return
	}
	m.routes(vs)
	for _, host := range state.DestinationHosts(vs) {
		m.claims(host)
	}
}
