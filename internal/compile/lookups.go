package compile

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Endpoints that proxies look up stand in the cluster itself. So a change of one compiles the
// clusters of its host again, and a cluster whose endpoints are in another order at each place is
// varied as an assignment is.

// lookups are the endpoints of a port and subset that proxies look up, by the sites that callers
// tell apart.
type lookups struct {
	sites []lookupSite // sorted
}

type lookupSite struct {
	site
	weight  uint64 // the sum over the endpoints
	members *model.List[cluster.Lookup]
}

// lookedUp returns the endpoints of a port and subset, or none if proxies do not look them up. Of
// DNS_ROUND_ROBIN a port has one name: the first of the workloads that the service selects, whether
// it belongs to the subset or not, as with Istio.
func (c *clusterBuilder) lookedUp(
	p model.ServicePort, in cluster.OutboundInput, subset model.Labels,
) []model.Endpoint {
	if !in.Resolution.IsByDNS() {
		return nil
	}
	found := c.ofPort(p)
	if in.Resolution == model.LogicalDNS && state.SelectsWorkloadEntries(c.service) && len(found) > 1 {
		found = []model.Endpoint{slices.MinFunc(found, byWorkload)}
	}
	return slices.DeleteFunc(found, func(e model.Endpoint) bool {
		return !subset.Selects(e.Labels) || in.Forwarded && !e.TLS
	})
}

// byWorkload is the order of endpoints by their workloads' names. Pods, which have a node, stand
// before WorkloadEntries.
func byWorkload(a, b model.Endpoint) int {
	kind := func(e model.Endpoint) int {
		if e.Node != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(kind(a), kind(b)), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Address, b.Address),
		cmp.Compare(a.Port, b.Port),
	)
}

// ofPort returns the endpoints that the service lists for a port, in their order, or those of the
// workloads that it selects. A Service whose name is looked up lists that name, whatever else it
// says: its endpoints change without a change of its clusters.
func (c *clusterBuilder) ofPort(p model.ServicePort) (found []model.Endpoint) {
	known := c.scope.Endpoints(c.service)
	if state.SelectsWorkloadEntries(c.service) {
		for _, e := range known.All() {
			if e.PortName == p.Name {
				found = append(found, e)
			}
		}
		return found
	}
	for _, e := range c.service.Endpoints {
		if e.PortName == p.Name {
			joined, _ := known.Known(&e)
			e.TLS = joined.TLS
			found = append(found, e)
		}
	}
	return found
}

// lookupsOf divides endpoints into the sites that callers with a preference tell apart.
func (b unitBuilder) lookupsOf(found []model.Endpoint, prefer endpoint.Preference, tls bool) *lookups {
	key := groupKey{marks: b.labels.List(prefer.Marks())}
	bySite, weights := map[site][]cluster.Lookup{}, map[site]uint64{}
	for _, e := range found {
		at := key.site(e)
		bySite[at] = append(bySite[at], cluster.Lookup{
			Address: e.Address, Port: e.Port, Weight: e.Weight, Health: e.Health, Workload: workloadOf(e),
			TLS: tls && e.TLS,
		})
		weights[at] += uint64(weightOf(e))
	}
	l := &lookups{}
	for at, members := range bySite {
		l.sites = append(l.sites, lookupSite{at, weights[at], b.lookedUpAt.List(members)})
	}
	slices.SortFunc(l.sites, func(a, o lookupSite) int { return a.compare(o.site) })
	return l
}

// varies reports whether the order of the endpoints differs between places.
func (l *lookups) varies(prefer endpoint.Preference) bool {
	return len(l.sites) > 1 || len(l.sites) == 1 && (prefer.HasWeights() || prefer.NodeLocal)
}

// spread returns the endpoints as callers near see them.
func (l *lookups) spread(
	tc *translationCache, prefer endpoint.Preference, near model.Labels,
) *model.List[cluster.LookupGroup] {
	sites := make([]endpoint.Site, len(l.sites))
	for i, s := range l.sites {
		sites[i] = endpoint.Site{Locality: s.locality, Marks: s.marks, Weight: s.weight}
	}
	var groups []cluster.LookupGroup
	for i, share := range prefer.Spread(sites, near) {
		if !share.LeftOut {
			groups = append(groups, cluster.LookupGroup{
				Locality: sites[i].Locality, Priority: share.Priority, Weight: share.Weight,
				Members: l.sites[i].members,
			})
		}
	}
	return tc.lookupGroups.List(groups)
}

// lookupCluster is a cluster whose endpoints are looked up, without these.
type lookupCluster struct {
	in     cluster.OutboundInput
	found  *lookups
	prefer endpoint.Preference
	by     patched
}

// at returns the cluster for proxies near; nil if it cannot be served.
func (l *lookupCluster) at(tc *translationCache, near model.Labels) emitted {
	in := l.in
	in.Endpoints = l.found.spread(tc, l.prefer, near)
	return tc.clusters.with(in, l.by)
}

// matched returns what patches match of the cluster, which is the same at all places.
func (l *lookupCluster) matched(tc *translationCache) *resource.Resource {
	if l.by.by == nil {
		return nil
	}
	return l.at(tc, model.Labels{}).matched
}

// hasPlace reports whether it is known where an endpoint is.
func hasPlace(e model.Endpoint) bool { return e.Locality != model.Locality{} }

// addLookedUp adds a cluster whose endpoints are looked up. Parts for localities (distribute) leave
// out endpoints of others. Where no endpoint has a locality, as of most external hosts, they would
// leave out all, for a setting of the mesh that is not about such hosts.
func (c *clusterBuilder) addLookedUp(in cluster.OutboundInput, found []model.Endpoint, prefer endpoint.Preference) {
	if c.endpointsOnly {
		return
	}
	if prefer.HasWeights() && !slices.ContainsFunc(found, hasPlace) {
		prefer.Locality, in.LocalityWeights = nil, false
	}
	l := &lookupCluster{in: in, found: c.lookupsOf(found, prefer, in.AutoTLS), prefer: prefer}
	l.by = c.clusterPatches(c.scope, in.Name(), false)
	s := slot{typ: resource.Cluster, name: in.Name()}
	if keys := c.labels.List(prefer.Keys()); keys.Len() > 0 && l.found.varies(prefer) {
		s.vary = func() *varied { return &varied{cluster: l, keys: keys, matched: l.matched(c.translationCache)} }
	} else {
		s.get = func() emitted { return l.at(c.translationCache, model.Labels{}) }
	}
	c.slots = append(c.slots, s)
}
