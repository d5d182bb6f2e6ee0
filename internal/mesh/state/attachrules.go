package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// virtualServices returns the routes of a route's hosts. Listeners with the same hosts share one
// VirtualService.
func (a *attachments) virtualServices(
	s *Snapshot, r *model.AttachedRoute, status *model.GatewayAPIStatus,
) []model.Object {
	var out []model.Object
	rules, connections := a.permitted(s, r), a.permittedTCP(s, r)
	for _, listener := range listenersOf(status) {
		hosts := s.hostsAt(listener, r)
		same := slices.IndexFunc(out, func(o model.Object) bool {
			return slices.Equal(o.(*model.VirtualService).Hosts, hosts)
		})
		if same >= 0 {
			v := out[same].(*model.VirtualService)
			v.Gateways = append(v.Gateways, listener)
			continue
		}
		v := &model.VirtualService{
			Meta: r.Meta, Hosts: hosts, Gateways: []string{listener}, HTTP: rules, TCP: connections,
			ExportTo: model.Exports{All: true},
		}
		if r.Kind == kinds.TLSRoute { // for listeners that pass TLS on, and TCP for those that terminate it
			v.TLS = a.byServerName(hosts, connections)
		}
		v.Owner, v.Name = r.Name, fmt.Sprintf("%s~%s~%d", r.Name, strings.ToLower(string(r.Kind)), len(out))
		out = append(out, v)
	}
	return out
}

// hostsAt returns the hosts that a route has at a listener, by the name of its Gateway.
func (s *Snapshot) hostsAt(listener string, r *model.AttachedRoute) []model.Host {
	n := parseListener(listener)
	g := s.servedGateway(n.gateway)
	for i := range g.Listeners { // there may be thousands, which are not copied
		if l := &g.Listeners[i]; l.Set == n.set && l.Name == n.name {
			return commonHosts(g, l, r.Hosts)
		}
	}
	return nil
}

// permitted returns the rules of a route. Destinations without a grant have no host, so that their
// requests are answered with 500, and mirrors without one are left out.
func (a *attachments) permitted(s *Snapshot, r *model.AttachedRoute) []*model.HTTPRoute {
	denied := s.deniedTo(r)
	if len(denied) == 0 {
		return r.HTTP
	}
	var out []*model.HTTPRoute
	for _, rule := range r.HTTP {
		changed := *rule
		changed.Destinations = without(denied, rule.Destinations)
		changed.Mirrors = slices.DeleteFunc(slices.Clone(rule.Mirrors), func(m model.Mirror) bool {
			return slices.Contains(denied, m.Destination.Host)
		})
		out = append(out, a.routes.Canonical(&changed))
	}
	return out
}

// deniedTo returns the hosts that a route leads to without a grant.
func (s *Snapshot) deniedTo(r *model.AttachedRoute) []model.Host {
	var denied []model.Host
	for _, f := range r.Foreign {
		if !s.allowsRoute(r, f) {
			denied = append(denied, f.Host)
		}
	}
	for host := range destinationsOf(r) {
		if s.isAlias(host) {
			denied = append(denied, host)
		}
	}
	return denied
}

// isAlias reports whether a host is that of a Service of type ExternalName. As a backend it would
// lead past ReferenceGrants: whoever writes one names hosts of any namespace.
func (s *Snapshot) isAlias(host model.Host) bool {
	for svc := range s.Claims(host) {
		return svc.IsAlias()
	}
	return false
}

// without returns destinations of which those on denied hosts have none.
func without(denied []model.Host, list []model.Destination) []model.Destination {
	out := slices.Clone(list)
	for i := range out {
		if slices.Contains(denied, out[i].Host) {
			out[i].Host = ""
		}
	}
	return out
}

// permittedTCP is permitted for the rules about connections.
func (a *attachments) permittedTCP(s *Snapshot, r *model.AttachedRoute) []*model.TCPRoute {
	denied := s.deniedTo(r)
	if len(denied) == 0 {
		return r.TCP
	}
	var out []*model.TCPRoute
	for _, rule := range r.TCP {
		changed := *rule
		changed.Destinations = without(denied, rule.Destinations)
		out = append(out, a.tcp.Canonical(&changed))
	}
	return out
}

// byServerName returns rules about connections as such about those that ask for one of the hosts.
func (a *attachments) byServerName(hosts []model.Host, rules []*model.TCPRoute) []*model.TLSRoute {
	match := a.l4Matches.Canonical(&model.L4Match{SNIHosts: hosts})
	var out []*model.TLSRoute
	for _, r := range rules {
		out = append(out, a.tlsRoutes.Canonical(&model.TLSRoute{
			Matches: []*model.L4Match{match}, Destinations: r.Destinations, Broken: r.Broken,
		}))
	}
	return out
}
