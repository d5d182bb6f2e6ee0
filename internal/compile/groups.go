package compile

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// groups holds the endpoints of services as encoded sets, by service port, subset and site, shared by all classes. A change of
// endpoints edits the sets at the cost of the change. It is used by one goroutine.
type groups struct {
	store   *resource.Store
	members *memo[memberKey]
	known   map[groupKey]*groupList
	of      map[serviceID][]groupKey
	refused func(model.Endpoint, error)

	// assigned are the assignments that were made of a list, makers what they were made of. One that was made of several
	// is disputed.
	assigned map[*groupList][]assignmentKey
	makers   map[*resource.Resource]assignmentKey
	disputed map[*resource.Resource]bool
}

// serviceID is that of a Service, or with entry, the name, of a ServiceEntry.
type serviceID struct {
	host      model.Host
	namespace string
	entry     string
}

func serviceIDOf(svc *model.Service) serviceID {
	id := serviceID{host: svc.Host, namespace: svc.Namespace}
	if svc.Kind == kinds.ServiceEntry {
		id.entry = svc.Name
	}
	return id
}

// groupKey names the endpoints of a service that serve a port and belong to a subset, in groups that some callers tell apart.
type groupKey struct {
	service  serviceID
	portName string
	subset   model.Labels
	family   model.Family
	dual     bool                // with the other address of each
	marks    *model.List[string] // labels whose values are told apart
	tls      bool                // those are told apart that take mutual TLS of the mesh
}

// groupList are the endpoints of a groupKey by site, at one revision. It never changes.
type groupList struct {
	of    *groupKey
	sites []siteGroup
}

// groupMove is a group before and after a change of its endpoints.
type groupMove struct{ from, to *groupList }

type memberKey struct {
	id state.EndpointID
	in endpoint.Input
}

func newGroups(w *workshop) *groups {
	g := &groups{
		store: w.store, known: map[groupKey]*groupList{}, of: map[serviceID][]groupKey{}, refused: w.refusals.Endpoint,
		assigned: map[*groupList][]assignmentKey{}, makers: map[*resource.Resource]assignmentKey{}, disputed: map[*resource.Resource]bool{},
	}
	g.members = newMemo(w.store, func(k memberKey) *resource.Resource {
		m, err := endpoint.Endpoint(k.in)
		if err != nil {
			g.refused(model.Endpoint{Address: k.in.Address, Port: k.in.Port, Workload: k.in.Workload}, err)
			return nil
		}
		return w.encode(string(k.id), m)
	})
	return g
}

// get finds or makes the endpoints of a key, which are the same for every class.
func (g *groups) get(s *scope.Scope, svc *model.Service, key groupKey) *groupList {
	id := serviceIDOf(svc)
	key.service = id
	if l := g.known[key]; l != nil {
		return l
	}
	var edits []siteEdit
	for eid, e := range s.Endpoints(svc).All() {
		if key.takes(e) {
			if r := g.member(&key, eid, e); r != nil {
				edits = append(edits, key.put(eid, e, r))
			}
		}
	}
	l := g.apply(&groupList{of: &key}, edits)
	g.known[key] = l
	g.of[id] = append(g.of[id], key)
	return l
}

func (k *groupKey) takes(e model.Endpoint) bool {
	return e.PortName == k.portName && k.subset.Selects(e.Labels) && k.family.Has(e.Address)
}

// member is the encoded endpoint, nil when it fails the gate of what may be encoded, which is told when it is met first.
func (g *groups) member(key *groupKey, id state.EndpointID, e model.Endpoint) *resource.Resource {
	in := endpoint.Input{Address: e.Address, Port: e.Port, Health: e.Health, Weight: e.Weight, Workload: e.Workload}
	if key.dual {
		in.Other = e.Other
	}
	if key.tls {
		mode, _ := e.Labels.Get(model.TLSModeLabel)
		in.TLS = mode == model.TLSModeIstio
	}
	return g.members.get(memberKey{id: id, in: in})
}

// update brings all groups of a service to the new endpoints, and tells which are others then.
func (g *groups) update(c state.EndpointChange) (moves []groupMove) {
	for _, key := range g.of[serviceID{host: c.Host, namespace: c.Namespace, entry: c.Entry}] {
		var edits []siteEdit
		for _, id := range c.IDs {
			if e, ok := c.From.Get(id); ok && key.takes(e) && g.member(&key, id, e) != nil {
				edits = append(edits, key.drop(id, e))
			}
		}
		for _, id := range c.IDs {
			if e, ok := c.To.Get(id); ok && key.takes(e) {
				if r := g.member(&key, id, e); r != nil {
					edits = append(edits, key.put(id, e, r))
				}
			}
		}
		if len(edits) == 0 {
			continue
		}
		from := g.known[key]
		if to := g.apply(from, edits); to != from {
			g.known[key] = to
			moves = append(moves, groupMove{from, to})
		}
	}
	return moves
}

// noteAssignment keeps who made an assignment of what.
func (g *groups) noteAssignment(k assignmentKey, r *resource.Resource) {
	g.assigned[k.list] = append(g.assigned[k.list], k)
	if other, known := g.makers[r]; known && (*other.list.of != *k.list.of || other.prefer != k.prefer) {
		g.disputed[r] = true
	}
	g.makers[r] = k
}

// varies tells whether the assignment is not the same at all places.
func (k *assignmentKey) varies() bool { return len(k.prefer.Keys()) > 0 }

// sweep forgets groups of which there is no assignment, but for those that are held.
func (g *groups) sweep(assignments map[assignmentKey]*resource.Resource, held map[*groupList]bool) {
	clear(g.assigned)
	clear(g.makers)
	clear(g.disputed)
	for k, r := range assignments {
		g.noteAssignment(k, r)
	}
	for key, l := range g.known {
		if len(g.assigned[l]) > 0 || held[l] {
			continue
		}
		delete(g.known, key)
		rest := slices.DeleteFunc(g.of[key.service], func(k groupKey) bool { return k == key })
		if len(rest) == 0 {
			delete(g.of, key.service)
			continue
		}
		g.of[key.service] = rest
	}
}
