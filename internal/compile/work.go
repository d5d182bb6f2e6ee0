package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Most classes see most things alike. What the units that a delta touches come to depends on what
// the class's scope answers (scope.ReadSet), so it is worked out once, and taken over by each class
// whose scopes, before and after, answer the same.

// stepCache has what was worked out in one step.
type stepCache struct {
	before, after *scope.LookupCache
	to            scope.Scope // of the class that takes the step
	done          map[scope.SharingKey][]*sharedEdit
	known         map[scope.ViewKey]*sharedEdit
	// anew are the classes that were compiled as a whole; alone tells that each is, from nothing.
	anew  []*class
	alone bool
	// generation is the step's; stages are those of its states, by endpoints, and last is the one that was asked for last.
	generation uint64
	stages     map[*resource.Set]*resource.EndpointPart
	last       *resource.EndpointPart
}

// stage is that of the step with some endpoints. Hundreds of classes may have the same.
func (b *stepCache) stage(endpoints *resource.Set) *resource.EndpointPart {
	if b.last != nil && b.last.Set() == endpoints {
		return b.last
	}
	b.last = b.stages[endpoints]
	if b.last == nil {
		b.last = resource.NewEndpointPart(b.generation, endpoints)
		b.stages[endpoints] = b.last
	}
	return b.last
}

// sharedEdit is what the units come to for some classes.
type sharedEdit struct {
	was, is *scope.ReadSet
	units   []unit
	told    []told
	edits   *edits
	batches [resource.NumTypes]*resource.Batch
	// plain tells that the edits are of resources alone: no route table comes or goes, and no assignment is varied.
	plain bool
}

type told struct {
	unit    unit
	problem source.Problem
}

// mostEdits is how many sharedEdits are tried for one class. Where more differ, each class compiles
// its own units.
const mostEdits = 8

func newStepCache(m *impact) *stepCache {
	b := &stepCache{generation: m.delta.To.Generation, stages: map[*resource.Set]*resource.EndpointPart{}}
	if m.quiet {
		return b // nothing is worked out
	}
	b.before, b.after = scope.NewLookupCache(), scope.NewLookupCache()
	b.done, b.known = map[scope.SharingKey][]*sharedEdit{}, map[scope.ViewKey]*sharedEdit{}
	return b
}

// close ends the step.
func (b *stepCache) close() {
	for _, all := range b.done {
		for _, w := range all {
			for _, batch := range w.batches {
				batch.Release()
			}
		}
	}
}

// next is the scope of a class in another world, until the next class asks.
func (b *stepCache) next(s *scope.Scope, w *state.Snapshot) *scope.Scope {
	b.to = *s
	b.to.MoveTo(w)
	return &b.to
}

// editFor finds or works out the edit for a class; nil if the class compiles its own units.
// Gateways do: few are alike, and what each looks at is much.
func (b *stepCache) editFor(comp compiler, m *impact, from, to *scope.Scope) *sharedEdit {
	if b == nil {
		return nil
	}
	from.Cache, to.Cache = b.before, b.after
	if to.Type() != scope.Sidecar {
		return nil
	}
	by := scope.ViewKeyOf(from, to)
	w, ok := b.known[by]
	if !ok {
		w = b.editLike(comp, m, by.SharingKey, from, to)
		if w == nil || w.was.HoldsForViewKey() && w.is.HoldsForViewKey() {
			b.known[by] = w
		}
	}
	return w
}

// editLike finds the edit of classes whose scopes answer the same, or works one out.
func (b *stepCache) editLike(comp compiler, m *impact, key scope.SharingKey, from, to *scope.Scope) *sharedEdit {
	for _, w := range b.done[key] {
		if w.was.HoldsFor(from) && w.is.HoldsFor(to) {
			return w
		}
	}
	if len(b.done[key]) >= mostEdits {
		return nil
	}
	w := &sharedEdit{was: scope.NewReadSet(), is: scope.NewReadSet(), edits: newEdits(nil)}
	from.Reads, to.Reads = w.was, w.is
	w.units = m.units(from, to)
	comp.stepUnits(w.units, from, to, w.edits, func(u unit, p source.Problem) { w.told = append(w.told, told{u, p}) })
	from.Reads, to.Reads = nil, nil
	for t, list := range w.edits.sets {
		w.batches[t] = comp.store.Batch(list)
	}
	virtual := w.edits.virtualHosts()
	w.batches[resource.VirtualHost] = comp.store.Batch(virtual)
	w.plain = len(w.edits.heads) == 0 && !slices.ContainsFunc(virtual, func(e resource.Edit) bool { return e.Resource == nil })
	for _, v := range w.edits.varied {
		w.plain = w.plain && v == nil
	}
	b.done[key] = append(b.done[key], w)
	return w
}

// compile is what the units that the impact touches come to for the class.
func (c *class) compile(comp compiler, m *impact, w *sharedEdit, to *scope.Scope) *edits {
	e := newEdits(m.lane)
	if w != nil {
		c.take(comp, w, e)
		return e
	}
	units := m.units(&c.scope, to)
	for _, u := range units {
		c.settled(comp, u)
	}
	comp.stepUnits(units, &c.scope, to, e, func(u unit, p source.Problem) { c.reporter(comp, u)(p) })
	return e
}

// stepUnits compiles units anew.
func (c compiler) stepUnits(units []unit, from, to *scope.Scope, e *edits, tell func(unit, source.Problem)) {
	quiet := func(source.Problem) {}
	for _, u := range units {
		c.work.Units++
		now := c.slots(to, u, func(p source.Problem) { tell(u, p) })
		for _, old := range c.slots(from, u, quiet) {
			if !listed(now, old) {
				e.remove(old)
			}
		}
		for _, s := range now {
			e.put(s)
		}
	}
}

// adopt tells of the class what a shared edit found wrong.
func (c *class) adopt(comp compiler, w *sharedEdit) {
	for _, u := range w.units {
		c.settled(comp, u)
	}
	for _, t := range w.told {
		c.reporter(comp, t.unit)(t.problem)
	}
}

// replace is the state of a class with a shared edit, if that takes the place of resources that the
// class has and touches nothing else.
func (c *class) replace(comp compiler, m *impact, w *sharedEdit) (next resource.State, ok bool) {
	if !w.plain || len(m.ports) > 0 || len(c.varied) > 0 {
		return resource.State{}, false
	}
	sets := c.state.Sets()
	sets[resource.Endpoint] = m.lane.of(sets[resource.Endpoint])
	for t := range sets {
		sets[t] = w.batches[t].ApplyTo(sets[t])
	}
	if sets[resource.VirtualHost].Len() != c.state.Set(resource.VirtualHost).Len() {
		return resource.State{}, false
	}
	c.adopt(comp, w)
	return c.state.WithSets(m.steps.stage(sets[resource.Endpoint]), sets), true
}

// enter takes the class and all its variants, which have the same, to a state.
func (c *class) enter(next resource.State, changed []resource.ClassState) []resource.ClassState {
	c.state = next
	for _, v := range c.variants.list {
		changed = v.enter(next, changed)
	}
	return changed
}

// take gives the class a shared edit.
func (c *class) take(comp compiler, w *sharedEdit, e *edits) {
	c.adopt(comp, w)
	e.shared = w
	for t, list := range w.edits.sets {
		e.sets[t] = slices.Clip(list)
	}
	maps.Copy(e.heads, w.edits.heads)
	maps.Copy(e.varied, w.edits.varied)
	for table, vhosts := range w.edits.vhosts {
		e.vhosts[table] = maps.Clone(vhosts)
	}
}

// on makes the edits of a type in a set. Those that are shared are made once for all sets that have
// something in common.
func (e *edits) on(st *resource.Store, t resource.Type, s *resource.Set) *resource.Set {
	switch w := e.shared; {
	case w == nil:
	case t == resource.VirtualHost:
		if maps.EqualFunc(e.vhosts, w.edits.vhosts, maps.Equal[map[string]*resource.Resource, map[string]*resource.Resource]) {
			return w.batches[t].ApplyTo(s)
		}
	case len(e.sets[t]) == len(w.edits.sets[t]):
		return w.batches[t].ApplyTo(s)
	}
	return st.Apply(s, e.sets[t])
}

// virtualHosts are the edits of virtual hosts.
func (e *edits) virtualHosts() []resource.Edit {
	var list []resource.Edit
	for table, vhosts := range e.vhosts {
		for name, r := range vhosts {
			list = append(list, resource.Edit{Name: resource.VirtualHostName(table, name), Resource: r})
		}
	}
	return list
}
