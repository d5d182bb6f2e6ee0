package view

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// ClassID names a class as long as it lives.
type ClassID uint64

// class is a class with its present configuration. Only classes with a connected proxy exist.
type class struct {
	id      ClassID
	key     scope.Class
	scope   *scope.Scope
	state   *State
	tables  map[string]table
	members int
	// owners are the TCP services that have ports, but for those that are the first of all on theirs.
	owners map[uint16]*model.Service
	// conflicts are what is contested among the services that the class sees, by unit.
	conflicts map[unit][]*source.Tallied
}

// table is a route table in its parts. In a class the head is nil until a unit says that the table exists.
type table struct {
	head   []byte
	vhosts *Set
}

// edits gathers what changes in a class.
type edits struct {
	sets   [NumTypes][]Edit
	heads  map[string][]byte // nil: the table goes
	vhosts map[string][]Edit
}

func newEdits() *edits { return &edits{heads: map[string][]byte{}, vhosts: map[string][]Edit{}} }

func (e *edits) remove(s slot) {
	switch {
	case s.table != "":
		e.vhosts[s.table] = append(e.vhosts[s.table], Edit{Name: s.name})
	case s.head != nil:
		e.heads[s.name] = nil
	default:
		e.sets[s.typ] = append(e.sets[s.typ], Edit{Name: s.name})
	}
}

func (e *edits) put(s slot) {
	switch {
	case s.table != "":
		e.vhosts[s.table] = append(e.vhosts[s.table], Edit{Name: s.name, Resource: s.get()})
	case s.head != nil:
		e.heads[s.name] = s.head()
	default:
		e.sets[s.typ] = append(e.sets[s.typ], Edit{Name: s.name, Resource: s.get()})
	}
}

// apply makes the edits and returns the new state; it is the old pointer when nothing differs.
func (c *class) apply(st *Store, e *edits, generation uint64) *State {
	touched := map[string]bool{}
	for name := range e.heads {
		touched[name] = true
	}
	for name := range e.vhosts {
		touched[name] = true
	}
	for name := range touched {
		c.editTable(st, e, name)
	}
	next := NewState(generation)
	changed := false
	for t := range c.state.Sets {
		next.Sets[t] = st.Apply(c.state.Sets[t], e.sets[t])
		changed = changed || !next.Sets[t].Equal(c.state.Sets[t])
	}
	if changed {
		c.state = next
	}
	return c.state
}

func (c *class) editTable(st *Store, e *edits, name string) {
	t, ok := c.tables[name]
	if !ok {
		t.vhosts = emptySet
	}
	if head, set := e.heads[name]; set {
		t.head = head
	}
	t.vhosts = st.Apply(t.vhosts, e.vhosts[name])
	if t.head == nil {
		e.sets[Route] = append(e.sets[Route], Edit{Name: name})
		if t.vhosts.Len() == 0 {
			delete(c.tables, name)
			return
		}
		c.tables[name] = t
		return
	}
	c.tables[name] = t
	e.sets[Route] = append(e.sets[Route], Edit{Name: name, Resource: st.Canonical(NewRouteTable(name, t.head, t.vhosts))})
}

// fill compiles a class from nothing.
func (c *class) fill(comp compiler, s *scope.Scope, generation uint64) {
	old := c.state
	c.settledAll(comp)
	c.scope, c.state, c.tables, c.owners, c.conflicts = s, NewState(generation), map[string]table{}, map[uint16]*model.Service{}, map[unit][]*source.Tallied{}
	e := newEdits()
	units, ports := comp.units(s)
	for _, u := range units {
		comp.work.Units++
		for _, slot := range comp.slots(s, u, c.reporter(comp, u)) {
			e.put(slot)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		c.fillPort(comp, s, port, e)
	}
	c.apply(comp.store, e, generation)
	if old != nil && sameSets(old, c.state) {
		c.state = old
	}
}

func sameSets(a, b *State) bool {
	for t := range a.Sets {
		if !a.Sets[t].Equal(b.Sets[t]) {
			return false
		}
	}
	return true
}

// step takes the class from its scope to the next one, compiling only what the impact may touch.
func (c *class) step(comp compiler, m *impact, generation uint64) (changed bool) {
	before := c.state
	from, to := c.scope, comp.scope(m.delta.To, c)
	m, narrow := m.of(from, to)
	if !narrow {
		c.fill(comp, to, generation)
		return c.state != before
	}
	e := newEdits()
	quiet := func(source.Problem) {}
	for _, u := range m.units(from, to) {
		comp.work.Units++
		c.settled(comp, u)
		now := comp.slots(to, u, c.reporter(comp, u))
		for _, old := range comp.slots(from, u, quiet) {
			if !listed(now, old) {
				e.remove(old)
			}
		}
		for _, s := range now {
			e.put(s)
		}
	}
	if to.Class.Type == scope.Sidecar {
		for _, port := range slices.Sorted(maps.Keys(m.ports)) {
			c.stepPort(comp, port, m.ports[port], to, e)
		}
	}
	c.scope = to
	c.apply(comp.store, e, generation)
	return c.state != before
}

func listed(slots []slot, o slot) bool {
	for _, s := range slots {
		if s.typ == o.typ && s.table == o.table && s.name == o.name {
			return true
		}
	}
	return false
}
