package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// class is a class with its present configuration. Only classes with a connected proxy exist.
type class struct {
	// What a change of endpoints looks at in each of hundreds of classes comes first, together.
	state    resource.State // without what is varied
	varied   map[string]*varied
	variants variants
	scope    scope.Scope

	id      resource.ClassID
	key     scope.Class
	tables  map[string]table
	members int
	wants   map[string]int // how many varied assignments a label of proxies decides on
	keys    []string       // of wants, sorted
	// owners are the TCP services that have ports, but for those that are the first of all on theirs.
	owners map[uint16]*model.Service
	// conflicts are what is contested among the services that the class sees, by unit.
	conflicts map[unit][]*source.Tallied
	lacks     *growth // nil for a class that is whole
}

// table is a route table: its head, nil until a unit says that the table exists, and how many virtual hosts it has.
type table struct {
	head   []byte
	vhosts int
}

// edits gathers what changes in a class.
type edits struct {
	sets   [resource.NumTypes][]resource.Edit
	heads  map[string][]byte                        // nil: the table goes
	vhosts map[string]map[string]*resource.Resource // by table and name; nil: the virtual host goes
	// turned are the ports of intercepted connections that begin or cease to have requests.
	turned map[uint16]bool
	varied map[string]*varied // by name; nil: the assignment is none, or the same at all places
	lane   *lane              // what is edited for all classes at once; nil for nothing
	shared *sharedEdit        // what began it, for others too; nil if the class did so itself
}

func newEdits(l *lane) *edits {
	return &edits{
		lane: l, heads: map[string][]byte{}, vhosts: map[string]map[string]*resource.Resource{}, turned: map[uint16]bool{}, varied: map[string]*varied{},
	}
}

func (e *edits) remove(s slot) {
	switch {
	case s.table != "":
		e.editVirtualHost(s.table, s.name, nil)
	case s.head != nil:
		e.heads[s.name] = nil
	default:
		e.sets[s.typ] = append(e.sets[s.typ], resource.Edit{Name: s.name})
		e.vary(s, nil)
	}
}

func (e *edits) editVirtualHost(table, name string, r *resource.Resource) {
	if e.vhosts[table] == nil {
		e.vhosts[table] = map[string]*resource.Resource{}
	}
	e.vhosts[table][name] = r
}

// vary notes whether an assignment is varied.
func (e *edits) vary(s slot, v *varied) {
	if s.typ == resource.Endpoint {
		e.varied[s.name] = v
	}
}

func (e *edits) put(s slot) {
	switch {
	case s.vary != nil:
		e.sets[s.typ] = append(e.sets[s.typ], resource.Edit{Name: s.name})
		e.vary(s, s.vary())
	case s.table != "":
		e.editVirtualHost(s.table, s.name, s.get())
	case s.head != nil:
		e.heads[s.name] = s.head()
	default:
		e.sets[s.typ] = append(e.sets[s.typ], resource.Edit{Name: s.name, Resource: s.get()})
		e.vary(s, nil)
	}
}

// apply makes the edits in what all variants have. Tables are edited before.
func (c *class) apply(st *resource.Store, e *edits) {
	sets := c.state.Sets()
	sets[resource.Endpoint] = e.lane.of(sets[resource.Endpoint])
	for t := range sets {
		sets[t] = e.on(st, resource.Type(t), sets[t])
	}
	c.state = c.state.WithSets(resource.NewEndpointPart(c.scope.Generation(), sets[resource.Endpoint]), sets)
}

// editTables makes the edits of route tables.
func (c *class) editTables(comp compiler, s *scope.Scope, e *edits) {
	touched := map[string]bool{}
	for name := range e.heads {
		touched[name] = true
	}
	for name := range e.vhosts {
		touched[name] = true
	}
	for name := range touched {
		if port, ok := tablePort(s, name); ok {
			c.turn(comp, s, port, e)
		}
		c.editTable(comp.store, e, name)
	}
}

func (c *class) editTable(st *resource.Store, e *edits, name string) {
	t := c.tables[name]
	t.vhosts += c.more(e, name)
	for vhost, r := range e.vhosts[name] {
		e.sets[resource.VirtualHost] = append(e.sets[resource.VirtualHost], resource.Edit{Name: resource.VirtualHostName(name, vhost), Resource: r})
	}
	if head, set := e.heads[name]; set {
		t.head = head
		edit := resource.Edit{Name: name}
		if head != nil {
			edit.Resource = st.Canonical(resource.NewTableHead(name, head))
		}
		e.sets[resource.Route] = append(e.sets[resource.Route], edit)
	}
	if c.tables[name] = t; t.head == nil && t.vhosts == 0 {
		delete(c.tables, name)
	}
}

// more is by how many virtual hosts the edits make a table larger.
func (c *class) more(e *edits, table string) (more int) {
	for name, r := range e.vhosts[table] {
		if r != nil {
			more++
		}
		if c.state.Set(resource.VirtualHost).Get(resource.VirtualHostName(table, name)) != nil {
			more--
		}
	}
	return more
}

// willHave tells whether a table has a virtual host after the edits.
func (c *class) willHave(e *edits, table, name string) bool {
	if r, edited := e.vhosts[table][name]; edited {
		return r != nil
	}
	return c.state.Set(resource.VirtualHost).Get(resource.VirtualHostName(table, name)) != nil
}

// step takes the class from its scope to the next one, compiling only what the impact may touch. It adds to changed which
// variants are others then, or tells that the proxies of the class are to be placed among its variants anew.
func (c *class) step(comp compiler, m *impact, changed []resource.ClassState) (_ []resource.ClassState, rekeyed bool) {
	if m.quiet {
		return c.drift(comp, m, changed), false
	}
	to := m.steps.next(&c.scope, m.delta.To)
	if m.delta.Mesh || len(m.delta.Sidecars) > 0 {
		to = comp.scope(m.delta.To, c)
	}
	narrowed, narrow := m.of(&c.scope, to)
	switch {
	case narrow:
		return c.stepTo(comp, narrowed, to, changed)
	case c.lacks != nil:
		c.sow(comp, to)
		return changed, false
	}
	return c.anew(comp, m, to, changed)
}

// anew compiles all of the class, from nothing or as a kin of one that was compiled so in this step.
func (c *class) anew(comp compiler, m *impact, to *scope.Scope, changed []resource.ClassState) (_ []resource.ClassState, rekeyed bool) {
	b, keys, own := m.steps, c.keys, c.variants
	if kin := kinAmong(b.anew, &c.key, to); kin != nil && !b.alone {
		c.settledAll(comp)
		c.variants = variants{} // they have nothing in common with the kin's
		c.follow(comp, kin, m.delta.To, to)
		c.variants = own
	} else {
		c.fill(comp, to)
	}
	b.anew = append(b.anew, c)
	if !slices.Equal(keys, c.keys) {
		return changed, true
	}
	for _, v := range c.variants.list {
		changed = v.enter(c.stateAt(comp, v.near), changed)
	}
	return changed, false
}

// stepTo is step for what the impact may touch.
func (c *class) stepTo(comp compiler, m *impact, to *scope.Scope, changed []resource.ClassState) (_ []resource.ClassState, rekeyed bool) {
	w := m.steps.editFor(comp, m, &c.scope, to)
	if w != nil {
		if next, replaced := c.replace(comp, m, w); replaced {
			c.look(to)
			return c.enter(next, changed), false
		}
	}
	e := c.compile(comp, m, w, to)
	c.editTables(comp, to, e)
	if to.Type() == scope.Sidecar {
		ports := maps.Clone(e.turned)
		for port := range m.ports {
			ports[port] = true
		}
		for _, port := range slices.Sorted(maps.Keys(ports)) {
			if !c.lacks.port(port) {
				c.stepPort(comp, port, m.ports[port], to, e)
			}
		}
	}
	c.look(to)
	m.lane.vary(c, e)
	c.apply(comp.store, e)
	if c.note(e) {
		return changed, true
	}
	return c.stepVariants(comp, e, changed), false
}

// look makes a scope the class's own.
func (c *class) look(at *scope.Scope) {
	c.scope = *at
	c.scope.Cache = nil
}

// drift takes the class to a world in which nothing that it sees is another but endpoints.
func (c *class) drift(comp compiler, m *impact, changed []resource.ClassState) []resource.ClassState {
	c.scope.MoveTo(m.delta.To)
	if len(m.delta.Endpoints) == 0 {
		return changed
	}
	if len(c.varied) > 0 {
		e := newEdits(m.lane)
		m.lane.vary(c, e)
		c.apply(comp.store, e)
		c.note(e) // by the same labels
		return c.stepVariants(comp, e, changed)
	}
	before := c.state.Set(resource.Endpoint)
	endpoints := m.lane.of(before)
	if endpoints == before {
		return changed
	}
	return c.enter(c.state.WithEndpoints(m.steps.stage(endpoints)), changed)
}

func listed(slots []slot, o slot) bool {
	for _, s := range slots {
		if s.typ == o.typ && s.table == o.table && s.name == o.name {
			return true
		}
	}
	return false
}
