package compile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/forkmap"
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
	isFork    bool // lists of the original are copied before one is appended to
	known     *forkmap.Map[groupKey, *groupList]
	byService *forkmap.Map[serviceID, []groupKey]

	// assigned are the assignments that were made of a list. keyOf is the reverse. ambiguous are
	// assignments that several lists came to.
	assigned  *forkmap.Map[*groupList, []assignmentKey]
	keyOf     *forkmap.Map[*resource.Resource, assignmentKey]
	ambiguous *forkmap.Map[*resource.Resource, bool]
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
	ending   bool                // also those that are Ending
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
		known:     forkmap.New[groupKey, *groupList](),
		byService: forkmap.New[serviceID, []groupKey](),
		assigned:  forkmap.New[*groupList, []assignmentKey](),
		keyOf:     forkmap.New[*resource.Resource, assignmentKey](),
		ambiguous: forkmap.New[*resource.Resource, bool](),
	}
}

func (g *groups) fork() *groups {
	return &groups{
		store: g.store, members: g.members, isFork: true, known: g.known.Fork(), byService: g.byService.Fork(),
		assigned: g.assigned.Fork(), keyOf: g.keyOf.Fork(), ambiguous: g.ambiguous.Fork(),
	}
}

// get finds or makes the endpoints of a key, which are the same for every class.
func (g *groups) get(s *scope.Scope, svc *model.Service, key groupKey) *groupList {
	id := serviceIDOf(svc)
	key.service = id
	if l := g.known.Get(key); l != nil {
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
	g.known.Put(key, l)
	g.byService.Put(id, append(slices.Clip(g.byService.Get(id)), key))
	return l
}

func (k *groupKey) includes(e model.Endpoint) bool {
	return e.PortName == k.portName && k.subset.Selects(e.Labels) && k.family.Has(e.Address) &&
		(e.TLS || !k.tlsOnly) && (k.ending || e.Health != model.Ending) &&
		(k.service.entry == "" || isPushed(e.Address))
}

// isPushed reports whether an endpoint of a ServiceEntry may stand in an assignment. Host names do
// not, which proxies look up: a ServiceEntry that begins to resolve by DNS has its groups still.
func isPushed(address string) bool {
	_, err := netip.ParseAddr(address)
	return err == nil || strings.HasPrefix(address, model.UnixPrefix)
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
	return g.members.get(memberKey{id: id, in: in}).Resource
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
	for _, key := range g.byService.Get(serviceID{host: c.Host, namespace: c.Namespace, entry: c.Entry}) {
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
		from := g.known.Get(key)
		if to := g.apply(from, edits); to != from {
			g.known.Put(key, to)
			moves = append(moves, groupMove{from, to})
		}
	}
	return moves
}

// recordAssignment records the key that an assignment was made of.
func (g *groups) recordAssignment(k assignmentKey, r *resource.Resource) {
	g.assigned.Put(k.list, append(g.own(g.assigned.Get(k.list)), k))
	if other, known := g.keyOf.Find(r); known && (*other.list.of != *k.list.of || other.prefer != k.prefer) {
		g.ambiguous.Put(r, true)
	}
	g.keyOf.Put(r, k)
}

// own returns a list that can be appended to without a trace in the original.
func (g *groups) own(keys []assignmentKey) []assignmentKey {
	if g.isFork {
		return slices.Clip(keys)
	}
	return keys
}

// varies reports whether the assignment differs between places.
func (k *assignmentKey) varies() bool { return len(k.prefer.Keys()) > 0 }

// sweep forgets the groups that have no assignment and are not in held.
func (g *groups) sweep(assignments map[assignmentKey]*resource.Resource, held map[*groupList]bool) {
	g.assigned = forkmap.New[*groupList, []assignmentKey]()
	g.keyOf = forkmap.New[*resource.Resource, assignmentKey]()
	g.ambiguous = forkmap.New[*resource.Resource, bool]()
	for k, r := range assignments {
		g.recordAssignment(k, r)
	}
	for key, l := range g.known.All() {
		if len(g.assigned.Get(l)) > 0 || held[l] {
			continue
		}
		g.known.Drop(key)
		rest := slices.Clone(g.byService.Get(key.service))
		rest = slices.DeleteFunc(rest, func(k groupKey) bool { return k == key })
		if len(rest) == 0 {
			g.byService.Drop(key.service)
			continue
		}
		g.byService.Put(key.service, rest)
	}
}
