package envoymodel

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// Bodies are what Envoy has of a kind, as it was sent, by name: clusters and listeners in their
// newest form, warm or not; route tables that were loaded; filters that are in force; virtual hosts
// that came on their own,
// under the names that they have in themselves; and under the name of an active cluster the
// endpoints that it serves, empty if it got none.
func (e *Envoy) Bodies(k Kind) map[string]string {
	out := map[string]string{}
	switch k {
	case Clusters:
		for _, of := range []map[string]*cluster{e.clusters.active, e.clusters.warming} {
			for name, c := range of {
				out[name] = c.body
			}
		}
	case Endpoints:
		for name, c := range e.clusters.active {
			if c.eds {
				out[name] = c.assignment.body
			}
		}
	case Listeners:
		for _, of := range []map[string]*listener{e.listeners.active, e.listeners.warming} {
			for name, l := range of {
				out[name] = l.body
			}
		}
	case Routes:
		for name, t := range e.listeners.tables {
			if t.message != nil {
				out[name] = t.body
			}
		}
	case Filters:
		for name, f := range e.listeners.filters {
			if f.inForce != nil {
				out[name] = f.inForce.body
			}
		}
	case VirtualHosts:
		for _, t := range e.listeners.tables {
			if t.hosts.watching {
				for name, h := range t.hosts.all {
					out[name] = h.body
				}
			}
		}
	}
	return out
}

// Refused is how many responses were refused so far.
func (e *Envoy) Refused() int { return e.refused }

// Watched tells whether somebody in Envoy wants the name.
func (e *Envoy) Watched(k Kind, name string) bool { return e.mux.watched(k, name) }

// Dangling are clusters that are not active, and yet named by a listener that serves or drains, or
// by the routes of one.
func (e *Envoy) Dangling() []string {
	out := map[string]bool{}
	check := func(cluster string) {
		if cluster != "" && e.clusters.active[cluster] == nil {
			out[cluster] = true
		}
	}
	for _, l := range slices.Concat(slices.Collect(maps.Values(e.listeners.active)), e.listeners.draining) {
		for _, cluster := range l.clusters {
			check(cluster)
		}
		for _, t := range l.tables {
			for _, v := range t.virtualHosts() {
				for _, r := range v.GetRoutes() {
					check(clusterOf(r))
				}
			}
		}
	}
	return sortedKeys(out)
}

// TablesInUse are the route tables of listeners that serve, with how many virtual hosts they have:
// -1 for one that is not there, so that everything gets 404.
func (e *Envoy) TablesInUse() map[string]int {
	out := map[string]int{}
	for _, l := range e.listeners.active {
		for _, t := range l.tables {
			out[t.name] = -1
			if t.shown {
				out[t.name] = len(t.virtualHosts())
			}
		}
	}
	return out
}

func clusterOf(r *routev3.Route) string { return r.GetRoute().GetCluster() }
