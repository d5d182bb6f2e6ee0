package compile

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// patched is the patches that change the message of an emission, and what they match of it that the
// message does not have. The zero value changes nothing.
type patched struct {
	by      patch.Patches
	context model.PatchContext
	ports   *model.List[uint16] // of a gateway's table (patch.TableSite)
}

// apply returns what a message is changed to, without a message if it is removed.
func (p patched) apply(m made) (made, patch.Outcome) {
	var out patch.Outcome
	switch of := m.message.(type) {
	case *clusterv3.Cluster:
		var c *clusterv3.Cluster
		if c, out = patch.Cluster(of, patch.ClusterSite{Context: p.context}, p.by); c == nil {
			return made{}, out
		}
		c.Name, m.traits.EDS, m.message = m.name, c.GetType() == clusterv3.Cluster_EDS, c
	case *listenerv3.Listener:
		var l *listenerv3.Listener
		if l, out = patch.Listener(of, p.context, p.by); l == nil {
			return made{}, out
		}
		l.Name, m.message = m.name, l
	case *routev3.VirtualHost:
		of.Name = m.name
		var h *routev3.VirtualHost
		if h, out = patch.VirtualHost(of, p.site(m.table), p.by); h == nil {
			return made{}, out
		}
		m.message = h
	case *routev3.RouteConfiguration:
		var t *routev3.RouteConfiguration
		t, out = patch.Table(of, p.site(m.name), p.by)
		t.Name, m.message = m.name, t
	case *corev3.TypedExtensionConfig:
		m.message, out = patch.PolicyFilters(of, p.context, p.by)
	}
	return m, out
}

func (p patched) site(table string) patch.TableSite {
	return patch.TableSite{Context: p.context, Name: table, Ports: p.ports}
}

// patchSet is the patches of a class, in their order.
type patchSet struct {
	list []patch.Patch
	// apart are those of the list whose filters are resources of their own, with their
	// configuration, which they do not have in the list.
	apart []patch.Patch
	// splits says that a filter stands between those of policies (model.BetweenClass).
	splits bool
	of     map[model.PatchTarget][]patch.Patch
	// lists makes canonical lists of some of them.
	lists *model.Interner[patch.Patch]
}

// patchCache has the patches of classes by their EnvoyFilters.
type patchCache struct {
	filters *model.Interner[*model.EnvoyFilter]
	lists   *model.Interner[patch.Patch]
	bare    *model.Pool[model.ConfigPatch]
	sets    map[patchSetKey]*patchSet
}

// maxPatchSets is how many patchSets are kept. Each change of a class's EnvoyFilters makes one.
const maxPatchSets = 4096

type patchSetKey struct {
	filters *model.List[*model.EnvoyFilter]
	matches *model.List[model.ProxyMatch]
	apart   bool
}

func newPatchCache() *patchCache {
	return &patchCache{
		filters: model.NewInterner[*model.EnvoyFilter](), lists: model.NewInterner[patch.Patch](),
		bare: model.NewPool[model.ConfigPatch](), sets: map[patchSetKey]*patchSet{},
	}
}

// sweep forgets all. Lists that emissions have stay canonical.
func (c *patchCache) sweep() { clear(c.sets) }

// of returns the patches of a class; nil for none.
func (c *patchCache) of(s *scope.Scope) *patchSet {
	filters := s.EnvoyFilters()
	if len(filters) == 0 {
		return nil
	}
	key := patchSetKey{c.filters.List(filters), s.ProxyMatches(), s.Settings().FiltersApart}
	set, known := c.sets[key]
	if !known {
		if len(c.sets) >= maxPatchSets { // they are made again from what classes have
			clear(c.sets)
		}
		set = c.newSet(key)
		c.sets[key] = set
	}
	return set
}

func (c *patchCache) newSet(key patchSetKey) *patchSet {
	set := &patchSet{lists: c.lists, of: map[model.PatchTarget][]patch.Patch{}}
	for f := range key.filters.All() {
		for _, p := range f.Patches {
			if p.Proxy == (model.ProxyMatch{}) || key.matches.Contains(p.Proxy) {
				set.list = append(set.list, patch.Patch{ConfigPatch: p, Owner: f.Key()})
			}
		}
	}
	c.setApart(set, key.apart)
	for _, p := range set.list {
		set.splits = set.splits || p.Class == model.BetweenClass
		set.of[p.Target] = append(set.of[p.Target], p)
	}
	return set
}

// setApart makes filters that patches add resources of their own, so that an edit drains no
// connection. It does so for those of requests whose name stands for one configuration alone, which
// no patch changes, if all may be; and for those that must be.
func (c *patchCache) setApart(set *patchSet, all bool) {
	inline := namesInline(set.list)
	for i, p := range set.list {
		may := all && p.Target == model.PatchHTTPFilter && !inline[p.Value.Name] && !inline[""]
		if !p.AddsFilter() || !may && !patch.MustBeApart(p.ConfigPatch) {
			continue
		}
		bare, err := patch.Bare(p.ConfigPatch)
		if err != nil {
			continue
		}
		set.apart = append(set.apart, p)
		set.list[i].ConfigPatch, set.list[i].Apart = c.bare.Canonical(bare), true
	}
}

// namesInline are the names of the filters of requests that are no resource of their own. The empty
// one is of a patch that merges into all filters.
func namesInline(list []patch.Patch) map[string]bool {
	configs := map[string]model.PatchValue{}
	inline := map[string]bool{pb.PolicyFilters: true}
	for _, p := range list {
		switch {
		case p.Target == model.PatchExtensionConfig:
			inline[p.Value.Name] = true
		case p.Target != model.PatchHTTPFilter:
		case p.Operation.Merges():
			inline[p.Listener.Chain.SubFilter] = true
		case p.AddsFilter():
			known, has := configs[p.Value.Name]
			if !patch.MayBeApart(p) || has && known != p.Value {
				inline[p.Value.Name] = true
			}
			configs[p.Value.Name] = p.Value
		}
	}
	return inline
}

// which returns those of some targets that may change a message.
func (set *patchSet) which(may func(patch.Patch) bool, targets ...model.PatchTarget) patch.Patches {
	var found []patch.Patch
	if len(targets) == 1 {
		for _, p := range set.of[targets[0]] {
			if may(p) {
				found = append(found, p)
			}
		}
		return set.lists.List(found)
	}
	for _, p := range set.list {
		if slices.Contains(targets, p.Target) && may(p) {
			found = append(found, p)
		}
	}
	return set.lists.List(found)
}

// contextOf returns the side of calls of what a class has.
func contextOf(s *scope.Scope, inbound bool) model.PatchContext {
	switch {
	case s.Type() == scope.Router:
		return model.GatewayContext
	case inbound:
		return model.SidecarInbound
	}
	return model.SidecarOutbound
}

// clusterPatches returns what changes a cluster.
func (b unitBuilder) clusterPatches(s *scope.Scope, name string, inbound bool) patched {
	set := b.patches.of(s)
	if set == nil {
		return patched{}
	}
	at := patch.ClusterSite{Context: contextOf(s, inbound)}
	return patched{context: at.Context, by: set.which(func(p patch.Patch) bool {
		return p.MayChangeCluster(name, at)
	}, model.PatchCluster)}
}

// listenerPatches returns what changes a listener.
func (b unitBuilder) listenerPatches(s *scope.Scope, name string, port uint16, inbound bool) patched {
	set := b.patches.of(s)
	if set == nil {
		return patched{}
	}
	targets := []model.PatchTarget{
		model.PatchListener, model.PatchListenerFilter, model.PatchFilterChain, model.PatchNetworkFilter,
		model.PatchHTTPFilter,
	}
	if inbound { // its routes stand in it
		targets = append(targets, model.PatchRouteConfiguration, model.PatchVirtualHost, model.PatchHTTPRoute)
	}
	context, apart := contextOf(s, inbound), b.hasPolicyList(s) && hasGuards(s, inbound)
	return patched{context: context, by: set.which(func(p patch.Patch) bool {
		elsewhere := apart && set.isOfPolicies(p)
		return !elsewhere && p.MayChangeListener(name, port, context)
	}, targets...)}
}

// hostPatches returns what changes a virtual host of a table.
func (b unitBuilder) hostPatches(s *scope.Scope, table, name string) patched {
	set := b.patches.of(s)
	if set == nil || len(set.of[model.PatchVirtualHost])+len(set.of[model.PatchHTTPRoute]) == 0 {
		return patched{} // without asking for the servers of the table, for each of its virtual hosts
	}
	of := b.tableSite(s, table)
	of.by = set.which(func(p patch.Patch) bool {
		return p.MayChangeHost(name, of.site(table))
	}, model.PatchVirtualHost, model.PatchHTTPRoute)
	return of
}

// tableSite returns what patches match of a table.
func (b unitBuilder) tableSite(s *scope.Scope, table string) patched {
	of := patched{context: contextOf(s, false)}
	if s.Type() == scope.Router {
		of.ports = b.tablePorts.List(portsOfTable(s, table))
	}
	return of
}

// policyPatches returns what changes the list of filters that policies come to.
func (b unitBuilder) policyPatches(s *scope.Scope) patched {
	set := b.patches.of(s)
	if set == nil {
		return patched{}
	}
	context := contextOf(s, true)
	return patched{context: context, by: set.which(func(p patch.Patch) bool {
		return set.isOfPolicies(p) && p.IsFor(context)
	}, model.PatchHTTPFilter)}
}

// hasPolicyList reports whether the filters that policies come to are a resource of its own.
func (b unitBuilder) hasPolicyList(s *scope.Scope) bool {
	if !b.policiesApart(s) {
		return false
	}
	_, has := b.policies(s)
	return has
}

// policiesApart reports whether filters of policies are a resource of their own in a class. They
// are none where another filter stands between them.
func (b unitBuilder) policiesApart(s *scope.Scope) bool {
	if !s.Settings().FiltersApart {
		return false
	}
	set := b.patches.of(s)
	return set == nil || !set.splits
}

// hasGuards reports whether policies are in force at the listeners of a side of calls.
func hasGuards(s *scope.Scope, inbound bool) bool { return inbound || s.Type() == scope.Router }

// isOfPolicies reports whether a patch is for the filters of policies, and not for one that another
// patch adds with such a name.
func (set *patchSet) isOfPolicies(p patch.Patch) bool {
	return p.IsOfPolicies() && !slices.ContainsFunc(set.of[model.PatchHTTPFilter], func(o patch.Patch) bool {
		return o.AddsFilter() && o.Value.Name == p.Listener.Chain.SubFilter
	})
}

// tableHead returns the head of a route table.
func (b unitBuilder) tableHead(s *scope.Scope, in route.TableInput) emitted {
	return b.heads.with(in, b.tablePatches(s, in.Name))
}

// tablePatches returns what changes a route table beside its virtual hosts.
func (b unitBuilder) tablePatches(s *scope.Scope, table string) patched {
	set := b.patches.of(s)
	if set == nil || len(set.of[model.PatchRouteConfiguration]) == 0 {
		return patched{}
	}
	of := b.tableSite(s, table)
	of.by = set.which(func(p patch.Patch) bool {
		return p.MayChangeTable(of.site(table))
	}, model.PatchRouteConfiguration)
	return of
}
