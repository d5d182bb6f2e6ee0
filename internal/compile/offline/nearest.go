package offline

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
)

// Named is what the match of a patch names.
type Named struct {
	Field, Value string   // below match; empty for a match that names nothing
	Nearest      []string // names that proxies have in its place, the most like first
}

// maxNearest is how many names Named has.
const maxNearest = 3

// audience are the proxies that a patch may be for.
type audience struct {
	namespace string // empty for all
	context   model.PatchContext
}

func (a audience) has(h holding) bool {
	if a.namespace != "" && a.namespace != h.namespace {
		return false
	}
	switch a.context {
	case model.GatewayContext:
		return h.kind == scope.Router
	case model.SidecarInbound, model.SidecarOutbound:
		return h.kind == scope.Sidecar
	case model.AnyContext:
	}
	return true
}

// Named returns the name in a match that says most, and what the proxies that the patch is for have
// in its place.
func (c *Compiled) Named(of compile.PatchMatches) Named {
	p := c.Patch(of)
	has := c.naming(audience{namespace: c.namespaceFor(of), context: p.Context})
	switch p.Target {
	case model.PatchCluster:
		return firstNamed(
			candidate{"cluster.name", p.Cluster.Name, has.clusters},
			candidate{"cluster.service", string(p.Cluster.Service), has.hosts},
		)
	case model.PatchRouteConfiguration, model.PatchVirtualHost, model.PatchHTTPRoute:
		return firstNamed(
			candidate{"routeConfiguration.vhost.name", p.Route.Host, has.virtualHosts},
			candidate{"routeConfiguration.name", p.Route.Name, has.tables},
		)
	case model.PatchListener, model.PatchListenerFilter, model.PatchFilterChain, model.PatchNetworkFilter,
		model.PatchHTTPFilter:
		port := ""
		if p.Listener.Port != 0 {
			port = strconv.Itoa(int(p.Listener.Port))
		}
		return firstNamed(
			candidate{"listener.filterChain.filter.subFilter.name", p.Listener.Chain.SubFilter, has.requests},
			candidate{"listener.filterChain.filter.name", p.Listener.Chain.Filter, has.connections},
			candidate{"listener.name", p.Listener.Name, has.listeners},
			candidate{"listener.portNumber", port, has.ports},
		)
	case model.PatchExtensionConfig:
	}
	return Named{}
}

// namespaceFor is that of the proxies of a patch; empty for those of all.
func (c *Compiled) namespaceFor(of compile.PatchMatches) string {
	if of.Owner.Namespace == c.root {
		return ""
	}
	return of.Owner.Namespace
}

// candidate is a field of a match with its value, and the names that there are of the kind.
type candidate struct {
	field, value string
	names        map[string]bool
}

// firstNamed returns the first of some fields that names what no proxy has, or else the first that
// names anything.
func firstNamed(all ...candidate) Named {
	var first Named
	for _, of := range all {
		switch {
		case of.value == "":
		case !of.names[of.value]:
			return Named{of.field, of.value, mostLike(of.value, of.names)}
		case first.Field == "":
			first = Named{Field: of.field, Value: of.value}
		}
	}
	return first
}

// mostLike returns the names with the most in common at both ends with a text. Those that have less
// than half as much of it as the best, or nothing, are left out.
func mostLike(text string, names map[string]bool) []string {
	type scored struct {
		name string
		like int
	}
	var list []scored
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if n := likeness(text, name); n > 0 {
			list = append(list, scored{name, n})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.like, a.like) })
	var best []string
	for _, s := range list[:min(maxNearest, len(list))] {
		if 2*s.like >= list[0].like {
			best = append(best, s.name)
		}
	}
	return best
}

// likeness is how many bytes two texts have in common at both ends.
func likeness(a, b string) int {
	most := min(len(a), len(b))
	front := 0
	for front < most && a[front] == b[front] {
		front++
	}
	back := 0
	for back < most-front && a[len(a)-1-back] == b[len(b)-1-back] {
		back++
	}
	return front + back
}
