package patch

import (
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TableSite is what patches match of a route table.
type TableSite struct {
	Context model.PatchContext
	Name    string
	// Ports are those of the servers that share a gateway's table, if one of them is another port
	// than the bound one: that of a Service that leads there.
	Ports *model.List[uint16]
}

// Table applies patches to a route table, without what they do to its virtual hosts.
func Table(t *routev3.RouteConfiguration, at TableSite, by Patches) (*routev3.RouteConfiguration, Outcome) {
	return task[*routev3.RouteConfiguration]{by, at.Context,
		func(r *run, t *routev3.RouteConfiguration) *routev3.RouteConfiguration {
			r.table(t, at)
			return t
		},
	}.on(t)
}

// VirtualHost applies patches to a virtual host of a table, with its name. It returns nil for one
// that they remove.
func VirtualHost(h *routev3.VirtualHost, at TableSite, by Patches) (*routev3.VirtualHost, Outcome) {
	return task[*routev3.VirtualHost]{by, at.Context, func(r *run, h *routev3.VirtualHost) *routev3.VirtualHost {
		return r.virtualHost(h, at)
	}}.on(h)
}

// wholeTable applies patches to a table that has its virtual hosts in it.
func (r *run) wholeTable(t *routev3.RouteConfiguration, at TableSite) {
	r.table(t, at)
	var hosts []*routev3.VirtualHost
	for _, h := range t.GetVirtualHosts() {
		if h = r.virtualHost(h, at); h != nil {
			hosts = append(hosts, h)
		}
	}
	for i, p := range r.of(model.PatchVirtualHost) {
		if p.Operation == model.PatchAdd && at.matches(p.Route) {
			h, err := value[*routev3.VirtualHost](p)
			if err == nil {
				hosts = append(hosts, h)
			}
			r.note(i, 1, err)
		}
	}
	t.VirtualHosts = hosts
}

func (r *run) table(t *routev3.RouteConfiguration, at TableSite) {
	for i, p := range r.of(model.PatchRouteConfiguration) {
		if p.Operation.Merges() && at.matches(p.Route) {
			r.note(i, 1, merge(p, t))
		}
	}
}

func (r *run) virtualHost(h *routev3.VirtualHost, at TableSite) *routev3.VirtualHost {
	for i, p := range r.of(model.PatchVirtualHost) {
		if !at.matches(p.Route) || !at.matchesHost(p.Route, h) {
			continue
		}
		if p.Operation == model.PatchReplace {
			other, err := value[*routev3.VirtualHost](p)
			if err == nil {
				h = other
			}
			r.note(i, 1, err)
		}
		if !r.stays(i, p, func() error { return merge(p, h) }) {
			return nil
		}
	}
	r.routes(h, at)
	return h
}

func (r *run) routes(h *routev3.VirtualHost, at TableSite) {
	// As in Istio, routes are changed and removed before others are put between them.
	for _, changes := range []bool{true, false} {
		for i, p := range r.of(model.PatchHTTPRoute) {
			changesThem := p.Operation.Merges() || p.Operation == model.PatchRemove
			if changes != changesThem || !at.matches(p.Route) || !at.matchesHost(p.Route, h) {
				continue
			}
			of := list[*routev3.Route]{items: h.GetRoutes(), merge: mergeRoute}
			if p.Route.OfRoute || changesThem {
				of.is = func(e *routev3.Route) bool { return matchesRoute(p.Route, e) }
			}
			if p.Operation == model.PatchInsertFirst && of.is != nil && of.named() < 0 {
				continue
			}
			items, n, err := of.edit(p, value[*routev3.Route])
			h.Routes = items
			r.note(i, n, err)
		}
	}
}

func mergeRoute(p Patch, to *routev3.Route) (bool, error) { return true, merge(p, to) }

// matches reports whether a match selects a table. Names are those of Istio: of a sidecar's calls
// the port, of those to it "inbound|8080||", of a gateway "http.80" and
// "https.443.PORTNAME.GATEWAY.NAMESPACE".
func (at TableSite) matches(m model.RouteMatch) bool {
	if m.Name != "" && m.Name != at.Name {
		return false
	}
	if at.Context != model.GatewayContext {
		return m.Port == 0 || strconv.Itoa(int(m.Port)) == portOfTable(at.Name)
	}
	parts := strings.Split(at.Name, ".")
	port, portName, gateway := "", "", ""
	switch {
	case parts[0] == "http" && len(parts) > 1:
		port = parts[1]
	case parts[0] == "https" && len(parts) > 4:
		port, portName, gateway = parts[1], parts[2], parts[4]+"/"+parts[3]
	}
	if m.PortName != "" && m.PortName != portName || m.Gateway != "" && m.Gateway != gateway {
		return false
	}
	if at.Ports.Len() > 0 {
		return m.Port == 0 || at.Ports.Contains(m.Port)
	}
	return m.Port == 0 || strconv.Itoa(int(m.Port)) == port
}

// portOfTable returns the port of a sidecar's table.
func portOfTable(name string) string {
	if parts := strings.Split(name, "|"); len(parts) > 1 {
		return parts[1]
	}
	return name
}

func (at TableSite) matchesHost(m model.RouteMatch, h *routev3.VirtualHost) bool {
	return (m.Host == "" || at.names(m.Host, h.GetName())) &&
		(m.Domain == "" || slices.Contains(h.GetDomains(), m.Domain))
}

// names reports whether a match names a virtual host. Of a gateway's the port is the bound one, and
// in Istio that of the server.
func (at TableSite) names(match, name string) bool {
	if match == name {
		return true
	}
	host, port := cutPort(match)
	of, _ := cutPort(name)
	return at.Context == model.GatewayContext && host == of && port != "" && at.hasPort(port)
}

// hasPort reports whether a server of a gateway's table has a port.
func (at TableSite) hasPort(port string) bool {
	if parts := strings.Split(at.Name, "."); parts[0] == "https" && len(parts) > 1 {
		return parts[1] == port
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && at.Ports.Contains(uint16(number))
}

// cutPort cuts "host:port".
func cutPort(name string) (host, port string) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return name, ""
	}
	return name[:i], name[i+1:]
}

func matchesRoute(m model.RouteMatch, r *routev3.Route) bool {
	if m.Route != "" && m.Route != r.GetName() || m.Owner != "" && m.Owner != ownerOf(r) {
		return false
	}
	switch r.GetAction().(type) {
	case *routev3.Route_Route:
		return m.Action == model.AnyAction || m.Action == model.ForwardAction
	case *routev3.Route_Redirect:
		return m.Action == model.AnyAction || m.Action == model.RedirectAction
	case *routev3.Route_DirectResponse:
		return m.Action == model.AnyAction || m.Action == model.AnswerAction
	}
	return true
}

// ownerOf returns the object that a route comes from, as its metadata name it; "" for none.
func ownerOf(r *routev3.Route) string {
	return r.GetMetadata().GetFilterMetadata()[model.OwnerFilter].GetFields()[model.OwnerField].GetStringValue()
}
