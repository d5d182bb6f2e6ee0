package envoymodel

import (
	"maps"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
)

// routeTable is a subscription to routes that listeners share.
type routeTable struct {
	manager *listenerManager
	name    string
	users   int
	version string
	body    string
	message *routev3.RouteConfiguration // as it was sent
	ready   bool                        // nobody waits for it any more
	shown   bool                        // it is in force, and not just waiting for its first virtual hosts
	fetch   *timer
	hosts   tableHosts
}

// tableHosts are the virtual hosts of a table that come on their own. They are kept while the table
// does without them.
type tableHosts struct {
	table    *routeTable
	watching bool
	source   string // of the watch: another one is another watch
	waiting  bool   // nothing came since the watch began, and somebody waits
	all      map[string]resource
	fetch    *timer
}

// table is the shared subscription to a table.
func (m *listenerManager) table(rds *hcmv3.Rds) *routeTable {
	t := m.tables[rds.GetRouteConfigName()]
	if t == nil {
		t = &routeTable{manager: m, name: rds.GetRouteConfigName()}
		t.hosts = tableHosts{table: t, all: map[string]resource{}}
		m.tables[t.name] = t
		if d := fetchTimeout(rds.GetConfigSource()); d > 0 {
			t.fetch = m.envoy.after(d, t.failed)
		}
		m.envoy.mux.watch(Routes, t.name, t)
	}
	t.users++
	return t
}

// stop ends what a table without users has under way.
func (t *routeTable) stop() {
	t.hosts.end()
	t.stopFetch()
	t.manager.envoy.mux.unwatch(Routes, t)
}

// update takes a response for the table. A removal is ignored.
func (t *routeTable) update(u update) string {
	if t.users == 0 || len(u.resources) == 0 {
		return ""
	}
	r := u.resources[0]
	p := r.message.(*routev3.RouteConfiguration)
	if why := wrongTable(t.with(p, t.hosts.all)); why != "" {
		return why
	}
	if t.body != r.body || t.message == nil {
		t.version, t.body, t.message = r.version, r.body, p
		t.hosts.follow(p.GetVhds())
	}
	t.stopFetch()
	t.show()
	return ""
}

// failed lets those go on who wait for the table, with routes or without.
func (t *routeTable) failed() {
	t.stopFetch()
	t.hosts.waiting = false
	t.proceed()
}

// proceed lets those go on who wait for the table, unless it waits itself.
func (t *routeTable) proceed() {
	t.ready = t.ready || !t.hosts.waiting
	t.manager.progress()
}

// show puts what came of the table into force, unless it waits for virtual hosts.
func (t *routeTable) show() {
	t.shown = t.shown || !t.hosts.waiting
	t.proceed()
}

func (t *routeTable) stopFetch() { t.fetch = t.manager.envoy.cancel(t.fetch) }

// virtualHosts are those that are in force.
func (t *routeTable) virtualHosts() []*routev3.VirtualHost {
	if !t.shown {
		return nil
	}
	return t.with(t.message, t.hosts.all).GetVirtualHosts()
}

func (t *routeTable) describeHosts() string { return DescribeHosts(t.with(t.message, t.hosts.all)) }

// with is a table with the virtual hosts that came on their own, if it wants any.
func (t *routeTable) with(p *routev3.RouteConfiguration, hosts map[string]resource) *routev3.RouteConfiguration {
	if p.GetVhds() == nil {
		return p
	}
	p = proto.CloneOf(p)
	for _, name := range sortedKeys(hosts) {
		p.VirtualHosts = append(p.VirtualHosts, hosts[name].message.(*routev3.VirtualHost))
	}
	return p
}

// follow begins, changes or ends the watch, as the table's newest head says.
func (h *tableHosts) follow(v *routev3.Vhds) {
	if v == nil {
		h.end()
		return
	}
	source := v.String()
	if h.watching && h.source == source {
		return
	}
	h.end()
	h.watching, h.source, h.waiting = true, source, !h.table.ready
	envoy := h.table.manager.envoy
	if d := fetchTimeout(v.GetConfigSource()); d > 0 {
		h.fetch = envoy.after(d, h.failed)
	}
	envoy.mux.watch(VirtualHosts, h.table.name, h)
}

func (h *tableHosts) end() {
	if !h.watching {
		return
	}
	h.watching, h.waiting = false, false
	envoy := h.table.manager.envoy
	h.fetch = envoy.cancel(h.fetch)
	envoy.mux.unwatch(VirtualHosts, h)
}

// update takes a response for virtual hosts of the table, all of it or nothing. They go by the
// names in their bodies.
func (h *tableHosts) update(u update) string {
	after := maps.Clone(h.all)
	for _, name := range u.removed {
		delete(after, name)
	}
	for _, r := range u.resources {
		after[r.name] = r
	}
	if why := wrongTable(h.table.with(h.table.message, after)); why != "" {
		return why
	}
	if len(u.resources) > 0 || len(after) < len(h.all) {
		h.table.version = u.version
	}
	h.all = after
	h.failed()
	return ""
}

// failed ends the wait for virtual hosts.
func (h *tableHosts) failed() {
	h.fetch = h.table.manager.envoy.cancel(h.fetch)
	h.waiting = false
	h.table.show()
}

// wrongTable finds a domain that stands twice in a table.
func wrongTable(p *routev3.RouteConfiguration) string {
	var seen []string
	for _, v := range p.GetVirtualHosts() {
		for _, d := range v.GetDomains() {
			d = strings.ToLower(d)
			switch {
			case !slices.Contains(seen, d):
				seen = append(seen, d)
			case d == "*":
				return "Only a single wildcard domain is permitted in route " + p.GetName()
			default:
				return "Only unique values for domains are permitted. Duplicate entry of domain " + d + " in route " +
					p.GetName()
			}
		}
	}
	return ""
}
