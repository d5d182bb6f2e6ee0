package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// variant is a class at one place: the proxies of a class that see the same endpoints in the same order. It has what all of the
// class have in common, and the assignments that the place decides on. Where it decides on none a class has one variant.
type variant struct {
	class   *class
	id      resource.ClassID
	near    model.Labels // what decides, of class.keys
	state   resource.State
	members int
}

// variants are those of a class.
type variants struct {
	at   map[model.Labels]*variant
	list []*variant // by id
}

func (vs *variants) add(v *variant) {
	if vs.at == nil {
		vs.at = map[model.Labels]*variant{}
	}
	vs.at[v.near] = v
	vs.list = append(vs.list, v)
}

// drop removes a variant if it is there.
func (vs *variants) drop(v *variant) {
	if vs.at[v.near] == v {
		delete(vs.at, v.near)
		vs.list = slices.DeleteFunc(vs.list, func(other *variant) bool { return other == v })
	}
}

// isNowhere tells that the class has no proxy yet, and so is at no place: it grows.
func (c *class) isNowhere() bool { return len(c.variants.list) == 0 }

// varied is an assignment that is not the same at all places.
type varied struct {
	key  assignmentKey       // without near
	keys *model.List[string] // labels of proxies that decide, sorted
}

// at is the assignment as proxies at a place get it.
func (v *varied) at(w *workshop, near model.Labels) *resource.Resource {
	key := v.key
	key.near = near.Only(v.keys.All())
	return w.assignments.get(key)
}

// preference is what decides on the order of a cluster's endpoints: the rule in force for it, else what its service prefers, else
// the mesh. Priorities need somebody who finds endpoints to fail, or else calls that were to fail over would not.
func (c compiler) preference(s *scope.Scope, svc *model.Service, lb *model.LoadBalancer, ejects bool) endpoint.Preference {
	prefer := endpoint.Preference{NodeLocal: svc.NodeLocal}
	locality := s.Mesh().Locality
	switch {
	case lb != nil && lb.Locality != nil:
		locality = lb.Locality
	case svc.Distribution == model.PreferZone:
		locality, ejects = c.preferZone, true
	case svc.Distribution == model.PreferNode:
		locality, ejects = c.preferNode, true
	case svc.Distribution == model.PreferHinted:
		prefer.Hinted = true
	}
	if locality != nil && !locality.Off && (ejects || len(locality.Distribute) > 0) {
		prefer.Locality = locality
	}
	return prefer
}

// prefersClose is the order that a Service's trafficDistribution means, by these labels.
func prefersClose(keys ...string) *model.LocalityLB {
	lb := &model.LocalityLB{}
	for _, k := range keys {
		lb.FailoverPriority = append(lb.FailoverPriority, model.PriorityLabel{Key: k})
	}
	return lb
}

// note brings the varied assignments up to date, and tells whether other labels than before decide.
func (c *class) note(e *edits) (rekeyed bool) {
	for name, v := range e.varied {
		c.count(c.varied[name], -1)
		c.count(v, 1)
		if v == nil {
			delete(c.varied, name)
			continue
		}
		c.varied[name] = v
	}
	keys := slices.Sorted(maps.Keys(c.wants))
	if slices.Equal(keys, c.keys) {
		return false
	}
	c.keys = keys
	return true
}

func (c *class) count(v *varied, n int) {
	if v == nil {
		return
	}
	for k := range v.keys.All() {
		if c.wants[k] += n; c.wants[k] == 0 {
			delete(c.wants, k)
		}
	}
}

// stepVariants takes the variants to the class's new state, and tells which are others then.
func (c *class) stepVariants(comp compiler, e *edits, changed []resource.ClassState) []resource.ClassState {
	for _, v := range c.variants.list {
		next := c.state
		if len(c.varied) > 0 {
			list := slices.Clone(e.sets[resource.Endpoint])
			for name, assignment := range e.varied {
				if assignment != nil {
					list = append(list, resource.Edit{Name: name, Resource: assignment.at(comp.workshop, v.near)})
				}
			}
			next = c.state.With(resource.Endpoint, comp.store.Apply(e.lane.of(v.state.Set(resource.Endpoint)), list))
		}
		changed = v.enter(next, changed)
	}
	return changed
}

// enter gives a variant a state, and adds it to those that changed; it keeps the one that it has if that is equal.
func (v *variant) enter(next resource.State, changed []resource.ClassState) []resource.ClassState {
	if v.state == next || v.state.Equal(next) {
		return changed
	}
	v.state = next
	return append(changed, resource.ClassState{Class: v.id, State: next})
}

// stateAt is the class's state at a place, from nothing.
func (c *class) stateAt(comp compiler, near model.Labels) resource.State {
	if len(c.varied) == 0 {
		return c.state
	}
	var list []resource.Edit
	for name, v := range c.varied {
		list = append(list, resource.Edit{Name: name, Resource: v.at(comp.workshop, near)})
	}
	return c.state.With(resource.Endpoint, comp.store.Apply(c.state.Set(resource.Endpoint), list))
}

// nearOf is what of a proxy's labels and place decides in a class.
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
