package validate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// delegation is the aspect of whether a VirtualService delegates as written, and is delegated to.
const delegation = "delegation"

// checkDelegations reports routes that do not delegate as written, and delegates that no
// VirtualService names.
func (c *Checker) checkDelegations(d *state.Delta) {
	for _, p := range d.Delegations {
		k := p.Either().Key()
		c.store.setRelation(relation{k, delegation}, delegationProblems(p.New))
		for delegate := range delegatesOf(p.Old) {
			if !delegatesOf(p.New)[delegate] {
				c.store.setRelation(routesFor(k, delegate), nil)
			}
		}
	}
}

// delegatesOf returns the delegates whose routes a root has; none for nil.
func delegatesOf(s *model.DelegationStatus) map[source.Key]bool {
	found := map[source.Key]bool{}
	if s == nil {
		return found
	}
	for _, r := range s.Routes {
		if r.Delegate != (model.ObjectName{}) {
			found[delegateKey(r.Delegate)] = true
		}
	}
	return found
}

func delegateKey(n model.ObjectName) source.Key {
	return source.Key{Kind: kinds.VirtualService, Namespace: n.Namespace, Name: n.Name}
}

// routesFor is the aspect of the routes of a delegate in the place of a root's. Equal problems of
// several roots are told once.
func routesFor(root, delegate source.Key) relation {
	return relation{delegate, routes + " for " + root.Namespace + "/" + root.Name}
}

func delegationProblems(s *model.DelegationStatus) []source.Problem {
	switch {
	case s == nil:
		return nil
	case s.Unused:
		return []source.Problem{{
			Severity: source.Warning, Path: "spec.hosts",
			Message: "is empty, and no VirtualService delegates to this one, so it changes nothing",
			Want:    "hosts, or a VirtualService with http.delegate that names it",
		}}
	}
	var problems []source.Problem
	for _, m := range s.Mistakes {
		p := source.Problem{
			Severity: source.Warning, Path: fmt.Sprintf("spec.http[%d].delegate", m.Route),
			Value: m.To.Namespace + "/" + m.To.Name, Message: m.Message, Want: m.Want,
		}
		if m.Closed {
			p.Severity = source.Error
			p.Message += "; requests are answered with 503"
		}
		problems = append(problems, p)
	}
	return problems
}

// place is where an HTTP route is written: in the VirtualService itself, if object is the zero Key,
// or in a delegate.
type place struct {
	object source.Key
	path   string
	// mirrors is where the mirrors are written, nil for the same place.
	mirrors *place
}

// told returns problems with the object whose they are.
func (p place) told(problems []source.Problem) []source.Problem {
	for i := range problems {
		problems[i].Object = p.object
	}
	return problems
}

func (p place) below(path string) place {
	p.path += path
	return p
}

// otherHosts suggests a host in the place of one that nobody has. In a delegate short names are
// those of its own namespace.
func (p place) otherHosts(snap *state.Snapshot, v *model.VirtualService, h model.Host) string {
	if p.object != (source.Key{}) {
		return wantHost(p.object.Namespace)
	}
	return nearestHosts(snap, v, h)
}

func (p place) ofMirrors() place {
	if p.mirrors != nil {
		return *p.mirrors
	}
	return p
}

// writtenAt returns where each of a VirtualService's HTTP routes is written.
func writtenAt(snap *state.Snapshot, v *model.VirtualService) func(i int) place {
	s := snap.Delegation(v.Namespace, v.Name)
	return func(i int) place {
		if s == nil || v.Kind != kinds.VirtualService {
			return place{path: fmt.Sprintf("spec.http[%d]", i)}
		}
		from := &s.Routes[i]
		own := place{path: fmt.Sprintf("spec.http[%d]", from.Route)}
		if from.Delegate == (model.ObjectName{}) {
			return own
		}
		of := place{object: delegateKey(from.Delegate), path: fmt.Sprintf("spec.http[%d]", from.Index)}
		if from.RootMirrors {
			of.mirrors = &own
		}
		return of
	}
}

// setRoutes sets what is wrong with the routes of a VirtualService, of each object that they are
// written in.
func (c *Checker) setRoutes(snap *state.Snapshot, v *model.VirtualService) {
	problems := checkVirtualService(snap, v)
	s := snap.Delegation(v.Namespace, v.Name)
	if s == nil || v.Kind != kinds.VirtualService {
		c.store.setRelation(routesOf(v), problems)
		return
	}
	of := map[source.Key][]source.Problem{}
	for _, p := range problems {
		of[p.Object] = append(of[p.Object], p)
	}
	c.store.setRelation(routesOf(v), of[source.Key{}])
	for _, k := range slices.SortedFunc(maps.Keys(delegatesOf(s)), source.Key.Compare) {
		c.store.setRelation(routesFor(v.Key(), k), distinct(of[k]))
	}
}

// distinct returns problems without those that are told already: two routes of a root may have the
// same delegate.
func distinct(problems []source.Problem) []source.Problem {
	slices.SortFunc(problems, func(a, b source.Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Value, b.Value))
	})
	return slices.Compact(problems)
}
