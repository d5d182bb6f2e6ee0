package offline

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Named is what the match of a patch names.
type Named struct {
	Field, Value string   // below match; empty for a match that names nothing
	Nearest      []string // names that proxies have in its place, the most like first
}

// maxNearest is how many names Named has.
const maxNearest = 3

// Named returns the name in a match that says most, and what the proxies have in its place.
func (c *Compiled) Named(p *model.ConfigPatch) Named {
	switch p.Target {
	case model.PatchCluster:
		return c.firstNamed(
			candidate{"cluster.name", p.Cluster.Name, c.namesOf(resource.Cluster)},
			candidate{"cluster.service", string(p.Cluster.Service), c.hosts()},
		)
	case model.PatchRouteConfiguration, model.PatchVirtualHost, model.PatchHTTPRoute:
		return c.firstNamed(
			candidate{"routeConfiguration.vhost.name", p.Route.Host, c.virtualHosts()},
			candidate{"routeConfiguration.name", p.Route.Name, c.namesOf(resource.Route)},
		)
	case model.PatchListener, model.PatchListenerFilter, model.PatchFilterChain, model.PatchNetworkFilter,
		model.PatchHTTPFilter:
		connections, requests, ports := c.inListeners()
		port := ""
		if p.Listener.Port != 0 {
			port = strconv.Itoa(int(p.Listener.Port))
		}
		return c.firstNamed(
			candidate{"listener.filterChain.filter.subFilter.name", p.Listener.Chain.SubFilter, requests},
			candidate{"listener.filterChain.filter.name", p.Listener.Chain.Filter, connections},
			candidate{"listener.name", p.Listener.Name, c.namesOf(resource.Listener)},
			candidate{"listener.portNumber", port, ports},
		)
	case model.PatchExtensionConfig:
	}
	return Named{}
}

// candidate is a field of a match with its value, and the names that there are of the kind.
type candidate struct {
	field, value string
	names        map[string]bool
}

// firstNamed returns the first of some fields that names what no proxy has, or else the first that
// names anything.
func (c *Compiled) firstNamed(all ...candidate) Named {
	var first Named
	for _, of := range all {
		named := Named{of.field, of.value, mostLike(of.value, of.names)}
		switch {
		case of.value == "":
		case !of.names[of.value]:
			return named
		case first.Field == "":
			first = Named{Field: of.field, Value: of.value}
		}
	}
	return first
}

// mostLike returns the names with the most in common at both ends with a text. Those that have less
// than half as much of it as the best are left out.
func mostLike(text string, names map[string]bool) []string {
	likeness := func(name string) int {
		most := min(len(name), len(text))
		front := 0
		for front < most && name[front] == text[front] {
			front++
		}
		back := 0
		for back < most-front && name[len(name)-1-back] == text[len(text)-1-back] {
			back++
		}
		return front + back
	}
	list := slices.Sorted(maps.Keys(names))
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(likeness(b), likeness(a)) })
	list = list[:min(maxNearest, len(list))]
	return slices.DeleteFunc(list, func(name string) bool { return 2*likeness(name) < likeness(list[0]) })
}

// each calls f with each resource of a type that some proxy would get.
func (c *Compiled) each(t resource.Type, f func(*resource.Resource)) {
	for s := range c.states {
		for r := range s.Set(t).All() {
			f(r)
		}
	}
}

func (c *Compiled) namesOf(t resource.Type) map[string]bool {
	names := map[string]bool{}
	c.each(t, func(r *resource.Resource) { names[r.Name()] = true })
	return names
}

// hosts are those of services that proxies have clusters of.
func (c *Compiled) hosts() map[string]bool {
	names := map[string]bool{}
	c.each(resource.Cluster, func(r *resource.Resource) {
		if i := strings.LastIndexByte(r.Name(), '|'); i >= 0 && i+1 < len(r.Name()) {
			names[r.Name()[i+1:]] = true
		}
	})
	return names
}

func (c *Compiled) virtualHosts() map[string]bool {
	names := map[string]bool{}
	c.each(resource.VirtualHost, func(r *resource.Resource) {
		table, _ := resource.TableOf(r.Name())
		names[strings.TrimPrefix(r.Name(), table+"/")] = true
	})
	return names
}

// inListeners are the names of filters of connections and of requests in the listeners of proxies,
// and the ports.
func (c *Compiled) inListeners() (connections, requests, ports map[string]bool) {
	connections, requests, ports = map[string]bool{}, map[string]bool{}, map[string]bool{}
	c.each(resource.Listener, func(r *resource.Resource) {
		var l listenerv3.Listener
		if proto.Unmarshal(r.Body(), &l) != nil {
			return // it has no addresses of its own yet, and is a message all the same
		}
		ports[strconv.Itoa(int(l.GetAddress().GetSocketAddress().GetPortValue()))] = true
		for _, chain := range l.GetFilterChains() {
			if port := chain.GetFilterChainMatch().GetDestinationPort().GetValue(); port != 0 {
				ports[strconv.Itoa(int(port))] = true
			}
			for _, f := range chain.GetFilters() {
				connections[f.GetName()] = true
				var manager hcmv3.HttpConnectionManager
				if f.GetTypedConfig().UnmarshalTo(&manager) != nil {
					continue // it is no connection manager
				}
				for _, h := range manager.GetHttpFilters() {
					requests[h.GetName()] = true
				}
			}
		}
	})
	return connections, requests, ports
}
