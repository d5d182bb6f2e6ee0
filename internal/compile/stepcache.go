package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Most classes see most things alike. What a unit comes to depends only on what the class's scope
// answers (scope.ReadSet). So the touched units are compiled once, and each class whose scopes give
// the same answers, before and after, takes the edits over.

// stepCache has what was compiled in one step, for classes that can share it.
type stepCache struct {
	before, after *scope.LookupCache
	to            scope.Scope // of the class that takes the step
	done          map[scope.SharingKey][]*sharedEdit
	known         map[scope.ViewKey]*sharedEdit
	// recompiled are the classes that were compiled as a whole. noSharing makes each of them start
	// from nothing.
	recompiled []*class
	noSharing  bool
	// parts are the EndpointParts of the step's states, by their endpoints. lastPart is the one
	// that was asked for last.
	generation uint64
	parts      map[*resource.Set]*resource.EndpointPart
	lastPart   *resource.EndpointPart
}

// endpointPart returns the step's EndpointPart with some endpoints. Hundreds of classes may have
// the same.
func (b *stepCache) endpointPart(endpoints *resource.Set) *resource.EndpointPart {
	if b.lastPart != nil && b.lastPart.Set() == endpoints {
		return b.lastPart
	}
	b.lastPart = b.parts[endpoints]
	if b.lastPart == nil {
		b.lastPart = resource.NewEndpointPart(b.generation, endpoints)
		b.parts[endpoints] = b.lastPart
	}
	return b.lastPart
}

// sharedEdit is what the touched units come to for the classes whose scopes answer like before and
// after.
type sharedEdit struct {
	before, after *scope.ReadSet
	units         []unit
	causes        []source.Key // of the units, where somebody asks
	problems      []unitProblem
	edits         *edits
	batches       [resource.NumTypes]*resource.Batch
	matches       *resource.Batch // of class.matches
	// replacesOnly says that the edits are of resources alone: no route table appears or
	// disappears, and none is varied.
	replacesOnly bool
}

type unitProblem struct {
	unit    unit
	problem source.Problem
}

// maxSharedEdits is how many sharedEdits are tried for one class. Where more differ, each class
// compiles its own units.
const maxSharedEdits = 8

func newStepCache(m *impact) *stepCache {
	b := &stepCache{generation: m.delta.To.Generation, parts: map[*resource.Set]*resource.EndpointPart{}}
	if m.noUnits {
		return b // nothing is compiled
	}
	b.before, b.after = scope.NewLookupCache(), scope.NewLookupCache()
	b.done, b.known = map[scope.SharingKey][]*sharedEdit{}, map[scope.ViewKey]*sharedEdit{}
	return b
}

// close ends the step and releases its batches.
func (b *stepCache) close() {
	for _, all := range b.done {
		for _, shared := range all {
			for _, batch := range shared.batches {
				batch.Release()
			}
			shared.matches.Release()
		}
	}
}

// scopeIn returns the scope of a class in another snapshot. It is valid until the next call.
func (b *stepCache) scopeIn(s *scope.Scope, snap *state.Snapshot) *scope.Scope {
	b.to = *s
	b.to.MoveTo(snap)
	return &b.to
}

// editFor finds or makes the sharedEdit for a class. It returns nil if the class compiles its own
// units. Gateways do so: few are alike, and each reads much.
func (b *stepCache) editFor(builder unitBuilder, m *impact, from, to *scope.Scope) *sharedEdit {
	if b == nil {
		return nil
	}
	from.Cache, to.Cache = b.before, b.after
	if to.Type() != scope.Sidecar {
		return nil
	}
	by := scope.ViewKeyOf(from, to)
	shared, ok := b.known[by]
	if !ok {
		shared = b.editLike(builder, m, by.SharingKey, from, to)
		if shared == nil || shared.before.HoldsForViewKey() && shared.after.HoldsForViewKey() {
			b.known[by] = shared
		}
	}
	return shared
}

// editLike finds the sharedEdit whose recorded answers are those of the class's scopes, or compiles
// one.
func (b *stepCache) editLike(builder unitBuilder, m *impact, key scope.SharingKey, from, to *scope.Scope) *sharedEdit {
	for _, shared := range b.done[key] {
		if shared.before.HoldsFor(from) && shared.after.HoldsFor(to) {
			return shared
		}
	}
	if len(b.done[key]) >= maxSharedEdits {
		return nil
	}
	shared := &sharedEdit{before: scope.NewReadSet(), after: scope.NewReadSet(), edits: newEdits(nil, from, to)}
	from.Reads, to.Reads = shared.before, shared.after
	units, causes := m.units(from, to)
	if shared.units = units; m.reasons != nil {
		shared.causes = m.objectsOf(causes)
	}
	builder.compileUnits(shared.units, from, to, shared.edits, func(u unit, p source.Problem) {
		shared.problems = append(shared.problems, unitProblem{u, p})
	})
	from.Reads, to.Reads = nil, nil
	for t, list := range shared.edits.sets {
		shared.batches[t] = builder.store.Batch(list)
	}
	virtual := shared.edits.virtualHosts()
	shared.batches[resource.VirtualHost] = builder.store.Batch(virtual)
	shared.matches = builder.store.Batch(shared.edits.matches)
	shared.replacesOnly = len(shared.edits.heads) == 0 && !slices.ContainsFunc(virtual, func(e resource.Edit) bool {
		return e.Resource == nil
	})
	for _, v := range shared.edits.varied {
		shared.replacesOnly = shared.replacesOnly && v == nil
	}
	b.done[key] = append(b.done[key], shared)
	return shared
}

// compile returns the edits of the class for the units that the impact touches.
func (c *class) compile(builder unitBuilder, m *impact, shared *sharedEdit, to *scope.Scope) *edits {
	e := newEdits(m.fastPath, &c.scope, to)
	if shared != nil {
		c.takeEdits(builder, shared, e)
		return e
	}
	units, causes := m.units(&c.scope, to)
	if m.reasons != nil {
		m.reasons[c] = m.objectsOf(causes)
	}
	for _, u := range units {
		c.clearProblems(builder, u)
	}
	builder.compileUnits(units, &c.scope, to, e, func(u unit, p source.Problem) { c.reporter(builder, u)(p) })
	return e
}

// compileUnits compiles units again, and removes the resources that they no longer have.
func (b unitBuilder) compileUnits(units []unit, from, to *scope.Scope, e *edits, tell func(unit, source.Problem)) {
	quiet := func(source.Problem) {}
	for _, u := range units {
		b.counts.compiled()
		now := u.kind.slots(b, to, u, func(p source.Problem) { tell(u, p) })
		for _, old := range u.kind.slots(b, from, u, quiet) {
			if !containsSlot(now, old) {
				e.remove(old)
			}
		}
		for _, s := range now {
			e.put(s)
		}
	}
}

// takeProblems replaces the class's problems in the shared units by those of the shared edit.
func (c *class) takeProblems(builder unitBuilder, shared *sharedEdit) {
	for _, u := range shared.units {
		c.clearProblems(builder, u)
	}
	for _, t := range shared.problems {
		c.reporter(builder, t.unit)(t.problem)
	}
}

// replace returns the state of a class with a shared edit, if the edit only replaces resources that
// the class has.
func (c *class) replace(builder unitBuilder, m *impact, shared *sharedEdit) (next resource.State, ok bool) {
	if !shared.replacesOnly || len(m.ports) > 0 || len(c.varied) > 0 {
		return resource.State{}, false
	}
	sets := c.state.Sets()
	sets[resource.Endpoint] = m.fastPath.replaceIn(sets[resource.Endpoint])
	for t := range sets {
		sets[t] = shared.batches[t].ApplyTo(sets[t])
	}
	if sets[resource.VirtualHost].Len() != c.state.Set(resource.VirtualHost).Len() {
		return resource.State{}, false
	}
	c.takeProblems(builder, shared)
	c.matches = shared.matches.ApplyTo(c.matches)
	return c.state.WithSets(m.steps.endpointPart(sets[resource.Endpoint]), sets), true
}

// setState takes the class to a state, and all its variants, which have the same.
func (c *class) setState(next resource.State, changed []resource.ClassState) []resource.ClassState {
	c.state = next
	for _, v := range c.variants.list {
		changed = v.setState(next, changed)
	}
	return changed
}

// takeEdits copies a shared edit into the edits of the class.
func (c *class) takeEdits(builder unitBuilder, shared *sharedEdit, e *edits) {
	c.takeProblems(builder, shared)
	e.shared = shared
	for t, list := range shared.edits.sets {
		e.sets[t] = slices.Clip(list)
	}
	maps.Copy(e.heads, shared.edits.heads)
	maps.Copy(e.varied, shared.edits.varied)
	e.matches = slices.Clip(shared.edits.matches)
	for table, vhosts := range shared.edits.vhosts {
		e.vhosts[table] = maps.Clone(vhosts)
	}
}

// applyTo makes the edits of a type in a set. Shared edits are made once for all sets that have
// something in common.
func (e *edits) applyTo(st *resource.Store, t resource.Type, s *resource.Set) *resource.Set {
	switch shared := e.shared; {
	case shared == nil:
	case t == resource.VirtualHost:
		if maps.EqualFunc(
			e.vhosts, shared.edits.vhosts, maps.Equal[map[string]*resource.Resource, map[string]*resource.Resource],
		) {
			return shared.batches[t].ApplyTo(s)
		}
	case len(e.sets[t]) == len(shared.edits.sets[t]):
		return shared.batches[t].ApplyTo(s)
	}
	return st.Apply(s, e.sets[t])
}

// virtualHosts returns the edits of virtual hosts as a list.
func (e *edits) virtualHosts() []resource.Edit {
	var list []resource.Edit
	for table, vhosts := range e.vhosts {
		for name, r := range vhosts {
			list = append(list, resource.Edit{Name: resource.VirtualHostName(table, name), Resource: r})
		}
	}
	return list
}
