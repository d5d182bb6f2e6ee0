package compile

import (
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// groups holds the endpoints of services as encoded sets, by service port, subset and site. All
// classes share it. A change of endpoints edits the sets at the cost of the change. One goroutine
// uses it at a time.
type groups struct {
	store     *resource.Store
	members   translation[memberKey]
	known     map[groupKey]*groupList
	byService map[serviceID][]groupKey

	// assigned are the assignments that were made of a list. keyOf is the reverse. ambiguous are
	// assignments that several lists came to.
	assigned  map[*groupList][]assignmentKey
	keyOf     map[*resource.Resource]assignmentKey
	ambiguous map[*resource.Resource]bool
}

// serviceID identifies a Service, or a ServiceEntry by its name in entry.
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

// groupKey names the endpoints of a service that serve a port and belong to a subset. The other
// fields say which endpoints its callers tell apart.
type groupKey struct {
	service  serviceID
	portName string
	subset   model.Labels
	family   model.Family
	dual     bool                // with each endpoint's address of the other family
	marks    *model.List[string] // labels whose values divide the endpoints into sites
	tls      bool                // endpoints say whether they are called in mutual TLS of the mesh
	tlsOnly  bool                // those alone that are called in mutual TLS of the mesh
}

// groupList has the endpoints of a groupKey by site, at one revision. It never changes.
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

func newGroups(e *emitter) *groups {
	return &groups{
		store: e.store,
		members: declare(e, "endpoint", func(k memberKey) made {
			m, err := endpoint.Endpoint(k.in)
			if err != nil {
				e.refusals.Endpoint(
					model.Endpoint{Address: k.in.Address, Port: k.in.Port, Workload: k.in.Workload}, err,
				)
				return made{}
			}
			return made{name: string(k.id), message: m}
		}),
		known:     map[groupKey]*groupList{},
		byService: map[serviceID][]groupKey{},
		assigned:  map[*groupList][]assignmentKey{},
		keyOf:     map[*resource.Resource]assignmentKey{},
		ambiguous: map[*resource.Resource]bool{},
	}
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
		if key.includes(e) {
			if r := g.member(&key, eid, e); r != nil {
				edits = append(edits, key.put(eid, e, r))
			}
		}
	}
	l := g.apply(&groupList{of: &key}, edits)
	g.known[key] = l
	g.byService[id] = append(g.byService[id], key)
	return l
}

func (k *groupKey) includes(e model.Endpoint) bool {
	return e.PortName == k.portName && k.subset.Selects(e.Labels) && k.family.Has(e.Address) &&
		(e.TLS || !k.tlsOnly)
}

// member returns the encoded endpoint. It is nil if the endpoint must not be encoded, which is
// reported the first time.
func (g *groups) member(key *groupKey, id state.EndpointID, e model.Endpoint) *resource.Resource {
	in := endpoint.Input{
		Address: e.Address, Port: e.Port, Health: e.Health, Weight: e.Weight, Workload: workloadOf(e),
	}
	if key.dual {
		in.Other = e.Other
	}
	in.TLS = key.tls && e.TLS
	return g.members.get(memberKey{id: id, in: in})
}

// workloadOf returns what callers' metrics call an endpoint's workload, as text. It is the same for
// all replicas, and leaves out the cluster, which is the callers' own.
func workloadOf(e model.Endpoint) string {
	namespace, pod, ok := strings.Cut(e.Workload, "/")
	if !ok {
		return ""
	}
	return proxystats.Of(proxystats.Pod{Namespace: namespace, Name: pod, Label: func(key string) string {
		value, _ := e.Labels.Get(key)
		return value
	}}).String()
}

// update brings all groups of a service to the new endpoints, and returns those that changed.
func (g *groups) update(c state.EndpointChange) (moves []groupMove) {
	for _, key := range g.byService[serviceID{host: c.Host, namespace: c.Namespace, entry: c.Entry}] {
		var edits []siteEdit
		for _, id := range c.IDs {
			if e, ok := c.From.Get(id); ok && key.includes(e) && g.member(&key, id, e) != nil {
				edits = append(edits, key.drop(id, e))
			}
		}
		for _, id := range c.IDs {
			if e, ok := c.To.Get(id); ok && key.includes(e) {
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

// recordAssignment records the key that an assignment was made of.
func (g *groups) recordAssignment(k assignmentKey, r *resource.Resource) {
	g.assigned[k.list] = append(g.assigned[k.list], k)
	if other, known := g.keyOf[r]; known && (*other.list.of != *k.list.of || other.prefer != k.prefer) {
		g.ambiguous[r] = true
	}
	g.keyOf[r] = k
}

// varies reports whether the assignment differs between places.
func (k *assignmentKey) varies() bool { return len(k.prefer.Keys()) > 0 }

// sweep forgets the groups that have no assignment and are not in held.
func (g *groups) sweep(assignments map[assignmentKey]*resource.Resource, held map[*groupList]bool) {
	clear(g.assigned)
	clear(g.keyOf)
	clear(g.ambiguous)
	for k, r := range assignments {
		g.recordAssignment(k, r)
	}
	for key, l := range g.known {
		if len(g.assigned[l]) > 0 || held[l] {
			continue
		}
		delete(g.known, key)
		rest := slices.DeleteFunc(g.byService[key.service], func(k groupKey) bool { return k == key })
		if len(rest) == 0 {
			delete(g.byService, key.service)
			continue
		}
		g.byService[key.service] = rest
	}
}
