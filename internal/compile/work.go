package compile

import (
	"maps"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Most classes see most things alike. What the units that a delta touches come to depends on what the class's scope answers
// (scope.Answers), so it is worked out once, and taken over by each class whose scopes, before and after, answer the same.

// bench has the work of one step.
type bench struct {
	before, after *scope.Glance
	to            scope.Scope // of the class that takes the step
	// common tells that the units are the same for all sidecars.
	common bool
	done   map[alike][]*work
	known  map[outlook]*work
	// anew are the classes that were compiled as a whole; alone tells that each is, from nothing.
	anew  []*class
	alone bool
	// generation is the step's; stages are those of its states, by endpoints, and last is the one that was asked for last.
	generation uint64
	stages     map[*resource.Set]*resource.EndpointPart
	last       *resource.EndpointPart
}

// stage is that of the step with some endpoints. Hundreds of classes may have the same.
func (b *bench) stage(endpoints *resource.Set) *resource.EndpointPart {
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

// alike is what classes have in common, before their scopes are asked.
type alike struct {
	settings         scope.Settings
	openWas, openNow bool // to unknown destinations
}

// outlook is all that answers depend on.
type outlook struct {
	alike
	namespace string
	selectors *model.List[model.Labels]
	was, now  *model.Sidecar
}

// work is what the units come to for some classes.
type work struct {
	was, is *scope.Answers
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

// mostWorks is how many works are tried for one class. Where more differ, each class does its own.
const mostWorks = 8

func newBench(m *impact) *bench {
	b := &bench{generation: m.delta.To.Generation, stages: map[*resource.Set]*resource.EndpointPart{}}
	if m.quiet {
		return b // there is no work
	}
	b.before, b.after, b.done, b.known = scope.NewGlance(), scope.NewGlance(), map[alike][]*work{}, map[outlook]*work{}
	b.common = !m.own && len(m.credentials) == 0 && len(m.delta.Guards) == 0
	for h := range m.hosts {
		b.common = b.common && strings.Contains(strings.TrimPrefix(string(h), "*."), ".") // else it is a short name in each namespace
	}
	return b
}

// close ends the step.
func (b *bench) close() {
	for _, works := range b.done {
		for _, w := range works {
			for _, batch := range w.batches {
				batch.Release()
			}
		}
	}
}

// next is the scope of a class in another world, until the next class asks.
func (b *bench) next(s *scope.Scope, w *state.World) *scope.Scope {
	b.to = *s
	b.to.World = w
	return &b.to
}

// workFor finds or does the work for a class; nil if it does its own.
func (b *bench) workFor(comp compiler, m *impact, from, to *scope.Scope) *work {
	if b == nil {
		return nil
	}
	from.Glance, to.Glance = b.before, b.after
	if !b.common || to.Class.Type != scope.Sidecar {
		return nil
	}
	key := alike{to.Class.Settings, !from.RegistryOnly(), !to.RegistryOnly()}
	by := outlook{key, to.Class.Namespace, to.Class.Selectors, from.Sidecar, to.Sidecar}
	w, ok := b.known[by]
	if !ok {
		w = b.likeWork(comp, m, key, from, to)
		b.known[by] = w
	}
	return w
}

// likeWork finds the work of classes whose scopes answer the same, or begins one.
func (b *bench) likeWork(comp compiler, m *impact, key alike, from, to *scope.Scope) *work {
	for _, w := range b.done[key] {
		if w.was.Given(from) && w.is.Given(to) {
			return w
		}
	}
	if len(b.done[key]) >= mostWorks {
		return nil
	}
	w := &work{was: scope.NewAnswers(), is: scope.NewAnswers(), units: m.units(from, to), edits: newEdits(nil)}
	from.Answers, to.Answers = w.was, w.is
	comp.stepUnits(w.units, from, to, w.edits, func(u unit, p source.Problem) { w.told = append(w.told, told{u, p}) })
	from.Answers, to.Answers = nil, nil
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
func (c *class) compile(comp compiler, m *impact, w *work, to *scope.Scope) *edits {
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

// adopt tells of the class what a work found wrong.
func (c *class) adopt(comp compiler, w *work) {
	for _, u := range w.units {
		c.settled(comp, u)
	}
	for _, t := range w.told {
		c.reporter(comp, t.unit)(t.problem)
	}
}

// replace is the state of a class with what a work came to, if that takes the place of resources that the class has and touches
// nothing else.
func (c *class) replace(comp compiler, m *impact, w *work) (next resource.State, ok bool) {
	if !w.plain || len(m.ports) > 0 || len(c.varied) > 0 {
		return resource.State{}, false
	}
	sets := c.state.Sets()
	sets[resource.Endpoint] = m.lane.of(sets[resource.Endpoint])
	for t := range sets {
		sets[t] = w.batches[t].On(sets[t])
	}
	if sets[resource.VirtualHost].Len() != c.state.Set(resource.VirtualHost).Len() {
		return resource.State{}, false
	}
	c.adopt(comp, w)
	return c.state.WithSets(m.bench.stage(sets[resource.Endpoint]), sets), true
}

// enter takes the class and all its variants, which have the same, to a state.
func (c *class) enter(next resource.State, changed []resource.ClassState) []resource.ClassState {
	c.state = next
	for _, v := range c.variants.list {
		changed = v.enter(next, changed)
	}
	return changed
}

// take gives the class what a work came to.
func (c *class) take(comp compiler, w *work, e *edits) {
	c.adopt(comp, w)
	e.work = w
	for t, list := range w.edits.sets {
		e.sets[t] = slices.Clip(list)
	}
	maps.Copy(e.heads, w.edits.heads)
	maps.Copy(e.varied, w.edits.varied)
	for table, vhosts := range w.edits.vhosts {
		e.vhosts[table] = maps.Clone(vhosts)
	}
}

// on makes the edits of a type in a set. Those that are a work's are made once for all sets that have something in common.
func (e *edits) on(st *resource.Store, t resource.Type, s *resource.Set) *resource.Set {
	switch w := e.work; {
	case w == nil:
	case t == resource.VirtualHost:
		if maps.EqualFunc(e.vhosts, w.edits.vhosts, maps.Equal[map[string]*resource.Resource, map[string]*resource.Resource]) {
			return w.batches[t].On(s)
		}
	case len(e.sets[t]) == len(w.edits.sets[t]):
		return w.batches[t].On(s)
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
