package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// variant is the part of a class at one place: its proxies there see the same endpoints in the same
// order. It has what all of the class have in common, and the assignments that depend on the place.
// A class without such assignments has one variant.
type variant struct {
	class   *class
	id      resource.ClassID
	near    model.Labels // the proxies' values of class.placeLabels
	state   resource.State
	members int
}

// variants are those of a class.
type variants struct {
	byPlace map[model.Labels]*variant
	list    []*variant // by id
}

func (vs *variants) add(v *variant) {
	if vs.byPlace == nil {
		vs.byPlace = map[model.Labels]*variant{}
	}
	vs.byPlace[v.near] = v
	vs.list = append(vs.list, v)
}

// drop removes a variant if it is there.
func (vs *variants) drop(v *variant) {
	if vs.byPlace[v.near] == v {
		delete(vs.byPlace, v.near)
		vs.list = slices.DeleteFunc(vs.list, func(other *variant) bool { return other == v })
	}
}

// hasNoVariants reports whether the class has no proxy yet, and so no place: it is being built.
func (c *class) hasNoVariants() bool { return len(c.variants.list) == 0 }

// varied is an assignment that differs between places, or a cluster that has such a one in it.
type varied struct {
	key     assignmentKey       // of an assignment, without near
	cluster *lookupCluster      // nil for an assignment
	keys    *model.List[string] // labels of proxies that it depends on, sorted
	matched *resource.Resource  // what patches match of a cluster, at any place
}

// variedKey names a varied assignment or cluster.
type variedKey struct {
	typ  resource.Type
	name string
}

// at returns the assignment or cluster for proxies at a place.
func (v *varied) at(tc *translationCache, near model.Labels) *resource.Resource {
	near = near.Only(v.keys.All())
	if v.cluster != nil {
		return v.cluster.at(tc, near).Resource
	}
	key := v.key
	key.near = near
	return tc.assignments.get(key)
}

// preference returns what decides on the order of a cluster's endpoints: the rule in force for it,
// else what its service prefers, else the mesh configuration. Priorities need outlier detection:
// without it no call would fail over.
func (b unitBuilder) preference(
	s *scope.Scope, svc *model.Service, lb *model.LoadBalancer, ejects bool,
) endpoint.Preference {
	prefer := endpoint.Preference{NodeLocal: svc.NodeLocal}
	locality := s.Mesh().Locality
	switch {
	case lb != nil && lb.Locality != nil:
		locality = lb.Locality
	case svc.Distribution == model.PreferZone:
		locality, ejects = b.preferZone, true
	case svc.Distribution == model.PreferNode:
		locality, ejects = b.preferNode, true
	case svc.Distribution == model.PreferHinted:
		prefer.Hinted = true
	}
	if locality != nil && !locality.Off && (ejects || len(locality.Distribute) > 0 || locality.ZoneAware) {
		prefer.Locality = locality
	}
	return prefer
}

// zonesOf returns how proxies share a cluster's calls among zones. As in preference, the rule in
// force comes first, then the service.
func zonesOf(s *scope.Scope, svc *model.Service, lb *model.LoadBalancer) cluster.Zones {
	locality := s.Mesh().Locality
	switch {
	case lb != nil && lb.Locality != nil:
		locality = lb.Locality
	case svc.Distribution == model.PreferZone || svc.Distribution == model.PreferNode:
		return cluster.Zones{}
	}
	if locality == nil || !locality.ZoneAware {
		return cluster.Zones{}
	}
	return cluster.Zones{Set: true, Off: locality.Off, Least: locality.MinClusterSize}
}

// prefersClose returns the order that a Service's trafficDistribution means, by these labels.
func prefersClose(keys ...string) *model.LocalityLB {
	lb := &model.LocalityLB{}
	for _, k := range keys {
		lb.FailoverPriority = append(lb.FailoverPriority, model.PriorityLabel{Key: k})
	}
	return lb
}

// noteVaried brings what is varied up to date. rekeyed reports that it depends on other labels than
// before.
func (c *class) noteVaried(e *edits) (rekeyed bool) {
	for at, v := range e.varied {
		if v == nil && c.varied[at] == nil {
			continue
		}
		own(c, borrowedVaried, &c.varied)
		own(c, borrowedLabelUses, &c.labelUses)
		c.countLabels(c.varied[at], -1)
		c.countLabels(v, 1)
		if v == nil {
			delete(c.varied, at)
			continue
		}
		c.varied[at] = v
	}
	keys := slices.Sorted(maps.Keys(c.labelUses))
	if slices.Equal(keys, c.placeLabels) {
		return false
	}
	c.placeLabels = keys
	return true
}

func (c *class) countLabels(v *varied, n int) {
	if v == nil {
		return
	}
	if v.cluster != nil {
		c.variedClusters += n
	}
	for k := range v.keys.All() {
		if c.labelUses[k] += n; c.labelUses[k] == 0 {
			delete(c.labelUses, k)
		}
	}
}

// stepVariants takes the variants to the class's new state, and adds those that changed to changed.
func (c *class) stepVariants(builder unitBuilder, e *edits, changed []resource.ClassState) []resource.ClassState {
	for _, v := range c.variants.list {
		next := c.state
		if len(c.varied) > 0 {
			own := e.fastPath.replaceIn(v.state.Set(resource.Endpoint))
			next = next.With(
				resource.Endpoint, builder.store.Apply(own, e.at(builder.translationCache, resource.Endpoint, v.near)),
			)
		}
		if c.variedClusters > 0 {
			own := v.state.Set(resource.Cluster)
			next = next.With(
				resource.Cluster, builder.store.Apply(own, e.at(builder.translationCache, resource.Cluster, v.near)),
			)
		}
		changed = v.setState(next, changed)
	}
	return changed
}

// at returns the edits of a type for proxies at a place.
func (e *edits) at(tc *translationCache, typ resource.Type, near model.Labels) []resource.Edit {
	list := slices.Clone(e.sets[typ])
	for at, v := range e.varied {
		if at.typ == typ && v != nil {
			list = append(list, resource.Edit{Name: at.name, Resource: v.at(tc, near)})
		}
	}
	return list
}

// setState gives a variant a state and adds it to those that changed. It keeps the present state if
// that is equal.
func (v *variant) setState(next resource.State, changed []resource.ClassState) []resource.ClassState {
	if v.state == next || v.state.Equal(next) {
		return changed
	}
	was := v.state
	v.state = next
	return append(changed, resource.ClassState{Class: v.id, State: next, Was: was})
}

// stateAt makes the class's state at a place.
func (c *class) stateAt(builder unitBuilder, near model.Labels) resource.State {
	if len(c.varied) == 0 {
		return c.state
	}
	all, state := &edits{varied: c.varied}, c.state
	for _, typ := range []resource.Type{resource.Endpoint, resource.Cluster} {
		list := all.at(builder.translationCache, typ, near)
		state = state.With(typ, builder.store.Apply(state.Set(typ), list))
	}
	return state
}

// nearOf returns the values of a proxy's labels and place that a class depends on.
func nearOf(proxy scope.Proxy, keys []string) model.Labels {
	if len(keys) == 0 {
		return model.Labels{}
	}
	near := map[string]string{}
	for _, k := range keys {
		if v := proxy.Label(k); v != "" {
			near[k] = v
		}
	}
	return model.LabelsOf(near)
}
