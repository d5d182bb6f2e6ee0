package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// lane takes changed endpoints to all classes at once. An assignment is made of one group of endpoints, which all classes
// share: what takes its place is the same wherever it stands, so that no class needs to be asked what it sees, and of classes
// that have the same assignments one alone costs more than a look-up.
type lane struct {
	assignments *memo[assignmentKey]
	store       *resource.Store
	// next are what takes the place of assignments, found by these.
	next map[*resource.Resource]*assignmentKey
	// lists are what takes the place of lists, found by these, and varying are the names of assignments that are made of one for a place: what
	// takes the place of such an assignment depends on the place.
	lists   map[*groupList]*groupList
	varying map[string]bool
	// slow are hosts whose classes have to be asked after all.
	slow map[model.Host]bool
	made map[resource.Identity]*resource.Set // by what they were made of
	// last are the assignments that were asked for last, and what they are now: those of the next class are mostly the same.
	last, lastTo *resource.Set
}

// lane brings all groups of endpoints up to date, and tells what that means for assignments.
func (c compiler) lane(d *state.Delta) *lane {
	l := &lane{
		assignments: c.assignments, store: c.store, next: map[*resource.Resource]*assignmentKey{},
		lists: map[*groupList]*groupList{}, varying: map[string]bool{}, slow: map[model.Host]bool{}, made: map[resource.Identity]*resource.Set{},
	}
	for _, e := range d.Endpoints {
		for _, m := range c.groups.update(e) {
			l.move(e.Host, m, c.groups)
		}
	}
	return l
}

// move notes what takes the place of the assignments of a list, which nobody needs any longer.
func (l *lane) move(host model.Host, m groupMove, g *groups) {
	l.lists[m.from] = m.to
	for _, key := range g.assigned[m.from] {
		old := l.assignments.made[key]
		delete(l.assignments.made, key)
		disputed := g.disputed[old]
		if !disputed {
			delete(g.makers, old)
		}
		if key.varies() {
			l.varying[key.cluster] = true
			continue
		}
		if disputed {
			l.slow[host] = true // another group came to the same: which of them a class means, it has to say
			continue
		}
		next := key
		next.list = m.to
		l.next[old] = &next
	}
	delete(g.assigned, m.from)
}

// of is a set of assignments with what takes the place of some.
func (l *lane) of(s *resource.Set) *resource.Set {
	if l == nil || len(l.next) == 0 {
		return s
	}
	if s != l.last {
		l.last, l.lastTo = s, l.apply(s)
	}
	return l.lastTo
}

// apply is of for a set that is not the last.
func (l *lane) apply(s *resource.Set) *resource.Set {
	if known := l.made[s.Identity()]; known != nil {
		return known
	}
	var edits []resource.Edit
	for old, key := range l.next {
		if s.Namesake(old) == old {
			edits = append(edits, resource.Edit{Name: key.cluster, Resource: l.assignments.get(*key)})
		}
	}
	to := l.store.Apply(s, edits)
	l.made[s.Identity()] = to
	return to
}

// vary adds to the edits of a class what takes the place of varied assignments.
func (l *lane) vary(c *class, e *edits) {
	switch {
	case l == nil || len(c.varied) == 0:
	case c.isNowhere():
		for name, v := range c.varied { // of whose lists no assignments are made
			l.varyOne(name, v, e)
		}
	default:
		for name := range l.varying {
			l.varyOne(name, c.varied[name], e)
		}
	}
}

func (l *lane) varyOne(name string, v *varied, e *edits) {
	if _, compiled := e.varied[name]; compiled || v == nil {
		return
	}
	if to := l.lists[v.key.list]; to != nil {
		next := *v
		next.key.list = to
		e.varied[name] = &next
	}
}
