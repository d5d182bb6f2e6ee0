package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// endpointFastPath gives changed endpoints to all classes at once. An assignment is made of one
// group of endpoints, which all classes share, so its replacement is the same wherever it stands.
// No class is asked what it sees. Of classes that have the same assignments, one alone costs more
// than a look-up.
type endpointFastPath struct {
	assignments *memo[assignmentKey]
	store       *resource.Store
	// replacements are the keys of the assignments that replace others, by the replaced ones.
	replacements map[*resource.Resource]*assignmentKey
	// movedLists are the lists that replace others, by the replaced ones. varying are the names of
	// assignments that are made of one of these for a place, so that their replacement depends on
	// the place.
	movedLists map[*groupList]*groupList
	varying    map[string]bool
	// slowHosts are hosts whose classes have to be asked; nil for none.
	slowHosts causes[model.Host]
	results   map[resource.Identity]*resource.Set // by the identity of what they replace
	// last is the set that was asked for last, and lastTo its replacement. Those of the next class
	// are mostly the same.
	last, lastTo *resource.Set
}

// newFastPath brings all groups of endpoints up to date, and finds what that means for assignments.
func (b unitBuilder) newFastPath(d *state.Delta) *endpointFastPath {
	f := &endpointFastPath{
		assignments:  b.assignments,
		store:        b.store,
		replacements: map[*resource.Resource]*assignmentKey{},
		movedLists:   map[*groupList]*groupList{},
		varying:      map[string]bool{},
		results:      map[resource.Identity]*resource.Set{},
	}
	for _, e := range d.Endpoints {
		for _, m := range b.groups.update(e) {
			f.replaceList(e.Host, m, b.groups)
		}
	}
	return f
}

// replaceList records what replaces the assignments of a list, and forgets these.
func (f *endpointFastPath) replaceList(host model.Host, m groupMove, g *groups) {
	f.movedLists[m.from] = m.to
	for _, key := range g.assigned.Get(m.from) {
		old := f.assignments.results.Get(key)
		f.assignments.results.Drop(key)
		disputed := g.ambiguous.Get(old)
		if !disputed {
			g.keyOf.Drop(old)
		}
		if key.varies() {
			f.varying[key.cluster] = true
			continue
		}
		if disputed {
			// two groups came to equal bytes: only the class knows which it means
			f.slowHosts = f.slowHosts.with(host, noObject)
			continue
		}
		next := key
		next.list = m.to
		f.replacements[old] = &next
	}
	g.assigned.Drop(m.from)
}

// replaceIn returns a set of assignments in which the changed ones are replaced.
func (f *endpointFastPath) replaceIn(s *resource.Set) *resource.Set {
	if f == nil || len(f.replacements) == 0 {
		return s
	}
	if s != f.last {
		f.last, f.lastTo = s, f.apply(s)
	}
	return f.lastTo
}

// apply is replaceIn for a set that is not the last one.
func (f *endpointFastPath) apply(s *resource.Set) *resource.Set {
	if known := f.results[s.Identity()]; known != nil {
		return known
	}
	var edits []resource.Edit
	for old, key := range f.replacements {
		if s.Namesake(old) == old {
			edits = append(edits, resource.Edit{Name: key.cluster, Resource: f.assignments.get(*key)})
		}
	}
	to := f.store.Apply(s, edits)
	f.results[s.Identity()] = to
	return to
}

// editVaried adds to the edits of a class what replaces its varied assignments.
func (f *endpointFastPath) editVaried(c *class, e *edits) {
	switch {
	case f == nil || len(c.varied) == 0:
	case c.hasNoVariants():
		for at, v := range c.varied { // no assignments are made of their lists
			f.editVariedOne(at, v, e)
		}
	default:
		for name := range f.varying {
			at := variedKey{resource.Endpoint, name}
			f.editVariedOne(at, c.varied[at], e)
		}
	}
}

func (f *endpointFastPath) editVariedOne(at variedKey, v *varied, e *edits) {
	if _, compiled := e.varied[at]; compiled || v == nil {
		return
	}
	if to := f.movedLists[v.key.list]; to != nil {
		next := *v
		next.key.list = to
		e.varied[at] = &next
	}
}
