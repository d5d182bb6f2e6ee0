package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// class is a class with its present configuration. Only classes with a connected proxy exist, and
// the one that is being built.
type class struct {
	// A change of endpoints reads these fields in each of hundreds of classes. They stand first, so
	// that they share cache lines.
	state    resource.State // without what is varied
	varied   map[variedKey]*varied
	variants variants
	scope    scope.Scope

	id      resource.ClassID
	key     scope.Class
	tables  map[string]table
	members int
	// variedClusters is how many of varied are clusters.
	variedClusters int
	labelUses      map[string]int // how many of varied a label of proxies decides on
	placeLabels    []string       // the keys of labelUses, sorted
	// owners are the TCP services that have ports, where they are not the first of all on their
	// port.
	owners map[uint16]*model.Service
	// problems are what the class sees wrong in each unit.
	problems map[unit][]*source.Tallied
	// patches are those of the class, nil for none, and matches what they match of it
	// (encodeMatches). counted is what of both the patchTally has.
	patches *patchSet
	matches *resource.Set
	counted countedMatches
	pending *pendingBuild // what is not compiled yet; nil for a complete class
	borrows borrowed
}

// borrowed are the maps of a class that are those of the class that it is a copy of.
type borrowed uint8

const (
	borrowedVaried borrowed = 1 << iota
	borrowedLabelUses
	borrowedTables
	borrowedOwners
	borrowedProblems
	borrowedCounts
	allBorrowed = 1<<iota - 1
)

// own gives a class a map of its own, before that is changed.
func own[K comparable, V any](c *class, which borrowed, of *map[K]V) {
	if c.borrows&which != 0 {
		*of = maps.Clone(*of)
		c.borrows &^= which
	}
}

// ownMaps says that the class has made its maps anew. Only the counts are still those of before:
// the patchTally changes them when it compares what patches match now with what they matched.
func (c *class) ownMaps() { c.borrows &= borrowedCounts }

// table is a route table: its head and the number of its virtual hosts. The head is nil until a
// unit says that the table exists.
type table struct {
	head   *resource.Resource
	vhosts int
}

// edits gathers what changes in a class.
type edits struct {
	sets   [resource.NumTypes][]resource.Edit
	heads  map[string]*resource.Resource            // nil removes the table
	vhosts map[string]map[string]*resource.Resource // by table and name; nil removes the virtual host
	// observes is that of the impact.
	observes bool
	// patchesTables says that other patches than before may change route tables.
	patchesTables bool
	// patched says that the mesh has EnvoyFilters, or had, so that matches are noted.
	patched bool
	matches []resource.Edit // of class.matches
	// toggled are the ports of intercepted connections that begin or cease to have requests.
	toggled  map[uint16]bool
	varied   map[variedKey]*varied // nil: there is none, or it is the same at all places
	fastPath *endpointFastPath     // edits for all classes at once; nil for none
	shared   *sharedEdit           // what the edits were copied from; nil if the class compiled its own
}

// newEdits returns no edits. scopes are those of the class, before and after.
func newEdits(f *endpointFastPath, scopes ...*scope.Scope) *edits {
	return &edits{
		patched:  slices.ContainsFunc(scopes, (*scope.Scope).HasEnvoyFilters),
		fastPath: f,
		heads:    map[string]*resource.Resource{},
		vhosts:   map[string]map[string]*resource.Resource{},
		toggled:  map[uint16]bool{},
		varied:   map[variedKey]*varied{},
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
		e.setVaried(s, nil)
	}
	e.match(s, emitted{})
}

func (e *edits) editVirtualHost(table, name string, r *resource.Resource) {
	if e.vhosts[table] == nil {
		e.vhosts[table] = map[string]*resource.Resource{}
	}
	e.vhosts[table][name] = r
}

// setVaried records whether an assignment or a cluster is varied.
func (e *edits) setVaried(s slot, v *varied) {
	if s.typ == resource.Endpoint || s.typ == resource.Cluster {
		e.varied[variedKey{s.typ, s.name}] = v
	}
}

func (e *edits) put(s slot) {
	switch {
	case s.vary != nil:
		e.sets[s.typ] = append(e.sets[s.typ], resource.Edit{Name: s.name})
		v := s.vary()
		e.setVaried(s, v)
		e.match(s, emitted{matched: v.matched})
	case s.table != "":
		of := s.get()
		e.editVirtualHost(s.table, s.name, of.Resource)
		e.match(s, of)
	case s.head != nil:
		of := s.head()
		e.heads[s.name] = of.Resource
		e.match(s, of)
	default:
		of := s.get()
		e.sets[s.typ] = append(e.sets[s.typ], resource.Edit{Name: s.name, Resource: of.Resource})
		e.setVaried(s, nil)
		e.match(s, of)
	}
}

// apply makes the edits in what all variants have in common. editTables comes before it.
func (c *class) apply(st *resource.Store, e *edits) {
	sets := c.state.Sets()
	sets[resource.Endpoint] = e.fastPath.replaceIn(sets[resource.Endpoint])
	for t := range sets {
		sets[t] = e.applyTo(st, resource.Type(t), sets[t])
	}
	c.state = c.state.WithSets(resource.NewEndpointPart(c.scope.Generation(), sets[resource.Endpoint]), sets)
	c.matches = e.matchesAfter(st, c.matches)
}

// editTables makes the edits of route tables.
func (c *class) editTables(builder unitBuilder, s *scope.Scope, e *edits) {
	touched := map[string]bool{}
	for name := range e.heads {
		touched[name] = true
	}
	for name := range e.vhosts {
		touched[name] = true
	}
	if e.patchesTables {
		for name := range c.tables {
			touched[name] = true
		}
	}
	for name := range touched {
		if port, ok := tablePort(s, name); ok {
			c.toggleRequests(builder, s, port, e)
		}
		c.editAddedHosts(builder, s, name, e)
		c.editTable(e, name)
	}
}

func (c *class) editTable(e *edits, name string) {
	was := c.tables[name]
	t := was
	t.vhosts += c.addedVhosts(e, name)
	for vhost, r := range e.vhosts[name] {
		e.sets[resource.VirtualHost] = append(e.sets[resource.VirtualHost], resource.Edit{
			Name:     resource.VirtualHostName(name, vhost),
			Resource: r,
		})
	}
	if head, set := e.heads[name]; set {
		t.head = head
		e.sets[resource.Route] = append(e.sets[resource.Route], resource.Edit{Name: name, Resource: head})
	}
	if t == was {
		return
	}
	own(c, borrowedTables, &c.tables)
	if c.tables[name] = t; t.head == nil && t.vhosts == 0 {
		delete(c.tables, name)
	}
}

// addedVhosts returns by how many virtual hosts the edits make a table larger.
func (c *class) addedVhosts(e *edits, table string) (more int) {
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

// willHave reports whether a table has a virtual host after the edits.
func (c *class) willHave(e *edits, table, name string) bool {
	if r, edited := e.vhosts[table][name]; edited {
		return r != nil
	}
	return c.state.Set(resource.VirtualHost).Get(resource.VirtualHostName(table, name)) != nil
}

// step takes the class from its scope to the next one. It compiles only what the impact may touch.
// It adds the changed variants to changed. rekeyed reports that other labels of the place count
// now, so that the class's proxies have to be placed again.
func (c *class) step(
	builder unitBuilder, m *impact, changed []resource.ClassState,
) (_ []resource.ClassState, rekeyed bool) {
	if m.noUnits {
		return c.stepEndpoints(builder, m, changed), false
	}
	to := m.steps.scopeIn(&c.scope, m.delta.To)
	if m.delta.Mesh || len(m.delta.Sidecars) > 0 {
		to = builder.scope(m.delta.To, c)
	}
	narrowed, narrow := m.forClass(&c.scope, to)
	switch {
	case narrow:
		if narrowed != m || m.mayObserve {
			narrowed = narrowed.observing(c.state, &c.scope, to)
		}
		if narrowed != m || len(m.delta.EnvoyFilters) > 0 {
			narrowed = narrowed.patching(builder, &c.scope, to)
		}
		return c.stepTo(builder, narrowed, to, changed)
	case c.pending != nil:
		c.startBuild(builder, to)
		return changed, false
	}
	return c.recompile(builder, m, to, changed)
}

// recompile compiles all of the class: from nothing, or from a base class that was recompiled in
// the same step.
func (c *class) recompile(
	builder unitBuilder, m *impact, to *scope.Scope, changed []resource.ClassState,
) (_ []resource.ClassState, rekeyed bool) {
	b, keys, own := m.steps, c.placeLabels, c.variants
	if base := baseFor(b.recompiled, &c.key, to); base != nil && !b.noSharing {
		c.clearAllProblems(builder)
		c.variants = variants{} // they have nothing in common with the base's
		c.startFrom(builder, base, m.delta.To, to)
		c.variants = own
	} else {
		c.compileAll(builder, to)
	}
	b.recompiled = append(b.recompiled, c)
	if !slices.Equal(keys, c.placeLabels) {
		return changed, true
	}
	for _, v := range c.variants.list {
		changed = v.setState(c.stateAt(builder, v.near), changed)
	}
	return changed, false
}

// stepTo is step for a class of which the impact may touch only a part.
func (c *class) stepTo(
	builder unitBuilder, m *impact, to *scope.Scope, changed []resource.ClassState,
) (_ []resource.ClassState, rekeyed bool) {
	shared := m.steps.editFor(builder, m, &c.scope, to)
	if shared != nil {
		if m.reasons != nil {
			m.reasons[c] = shared.causes
		}
		if next, replaced := c.replace(builder, m, shared); replaced { // a class with other patches has no shared edit
			c.setScope(to)
			return c.setState(next, changed), false
		}
	}
	if m.patches != nil {
		c.patches = builder.patches.of(to)
	}
	e := c.compile(builder, m, shared, to)
	e.observes = m.observes || m.patches.listeners()
	e.patchesTables = m.patches.tables()
	c.editTables(builder, to, e)
	if to.Type() == scope.Sidecar {
		ports := maps.Clone(e.toggled)
		for port := range m.ports {
			ports[port] = true
		}
		if m.patches.listeners() { // a port with requests alone is no port of listenerPorts
			for name := range c.tables {
				if port, is := tablePort(to, name); is {
					ports[port] = true
				}
			}
		}
		for _, port := range slices.Sorted(maps.Keys(ports)) {
			if !c.pending.isPending(port) {
				c.stepPort(builder, port, m.ports[port], to, e)
			}
		}
	}
	c.setScope(to)
	m.fastPath.editVaried(c, e)
	c.apply(builder.store, e)
	if c.noteVaried(e) {
		return changed, true
	}
	return c.stepVariants(builder, e, changed), false
}

// setScope makes a scope the class's own.
func (c *class) setScope(at *scope.Scope) {
	c.scope = *at
	c.scope.Cache = nil
}

// stepEndpoints takes the class to a snapshot in which only endpoints differ, of all that the class
// sees.
func (c *class) stepEndpoints(builder unitBuilder, m *impact, changed []resource.ClassState) []resource.ClassState {
	c.scope.MoveTo(m.delta.To)
	if len(m.delta.Endpoints) == 0 {
		return changed
	}
	if len(c.varied) > 0 {
		e := newEdits(m.fastPath, &c.scope)
		m.fastPath.editVaried(c, e)
		c.apply(builder.store, e)
		c.noteVaried(e) // the labels stay the same
		return c.stepVariants(builder, e, changed)
	}
	before := c.state.Set(resource.Endpoint)
	endpoints := m.fastPath.replaceIn(before)
	if endpoints == before {
		return changed
	}
	return c.setState(c.state.WithEndpoints(m.steps.endpointPart(endpoints)), changed)
}

// containsSlot reports whether slots has a resource of o's type and name.
func containsSlot(slots []slot, o slot) bool {
	for _, s := range slots {
		if s.typ == o.typ && s.table == o.table && s.name == o.name {
			return true
		}
	}
	return false
}
