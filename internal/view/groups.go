package view

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/world"
)

// groups holds the endpoints of services as encoded sets, by service port and subset, shared by all classes. A change of
// endpoints edits the sets at the cost of the change. It is used by one goroutine.
type groups struct {
	store   *Store
	members *memo[memberKey]
	known   map[groupKey]*groupList
	of      map[serviceID][]groupKey
	refused func(model.Endpoint, error)
}

// serviceID is that of a Service, or with entry, the name, of a ServiceEntry.
type serviceID struct {
	host      model.Host
	namespace string
	entry     string
}

func serviceIDOf(svc *model.Service) serviceID {
	id := serviceID{host: svc.Host, namespace: svc.Namespace}
	if svc.Kind == source.ServiceEntry {
		id.entry = svc.Name
	}
	return id
}

// groupKey names the endpoints of a service that serve a port and belong to a subset.
type groupKey struct {
	service  serviceID
	portName string
	subset   model.Labels
}

// groupList are the endpoints of a groupKey by locality, at one revision. It never changes.
type groupList struct{ localities []localityGroup }

type localityGroup struct {
	locality model.Locality
	members  *Set
}

type memberKey struct {
	id world.EndpointID
	in endpoint.Input
}

func newGroups(w *workshop) *groups {
	g := &groups{store: w.store, known: map[groupKey]*groupList{}, of: map[serviceID][]groupKey{}, refused: w.refusals.Endpoint}
	g.members = newMemo(w.store, func(k memberKey) *Resource {
		m, err := endpoint.Endpoint(k.in)
		if err != nil {
			g.refused(model.Endpoint{Address: k.in.Address, Port: k.in.Port, Workload: k.in.Workload}, err)
			return nil
		}
		return w.encode(string(k.id), m)
	})
	return g
}

// get finds or makes the endpoints of a key in a world.
func (g *groups) get(w *world.World, svc *model.Service, portName string, subset model.Labels) *groupList {
	id := serviceIDOf(svc)
	key := groupKey{service: id, portName: portName, subset: subset}
	if l := g.known[key]; l != nil {
		return l
	}
	sets := map[model.Locality][]Edit{}
	for eid, e := range w.Endpoints(svc).All() {
		if key.takes(&e) {
			if r := g.member(eid, e); r != nil {
				sets[e.Locality] = append(sets[e.Locality], Edit{Name: string(eid), Resource: r})
			}
		}
	}
	l := g.apply(&groupList{}, sets)
	g.known[key] = l
	g.of[id] = append(g.of[id], key)
	return l
}

func (k *groupKey) takes(e *model.Endpoint) bool {
	return e.PortName == k.portName && k.subset.Selects(e.Labels)
}

// member is the encoded endpoint, nil when it fails the gate of what may be encoded, which is told when it is met first.
func (g *groups) member(id world.EndpointID, e model.Endpoint) *Resource {
	in := endpoint.Input{Address: e.Address, Port: e.Port, Health: e.Health, Weight: e.Weight, Workload: e.Workload, TLS: e.TLS}
	return g.members.get(memberKey{id: id, in: in})
}

// update brings all groups of a service to the new endpoints.
func (g *groups) update(c world.EndpointChange) {
	for _, key := range g.of[serviceID{host: c.Host, namespace: c.Namespace, entry: c.Entry}] {
		edits := map[model.Locality][]Edit{}
		for _, id := range c.IDs {
			if e, ok := c.From.Get(id); ok && key.takes(&e) {
				edits[e.Locality] = append(edits[e.Locality], Edit{Name: string(id)})
			}
		}
		for _, id := range c.IDs {
			if e, ok := c.To.Get(id); ok && key.takes(&e) {
				if r := g.member(id, e); r != nil {
					edits[e.Locality] = append(edits[e.Locality], Edit{Name: string(id), Resource: r})
				}
			}
		}
		if len(edits) > 0 {
			g.known[key] = g.apply(g.known[key], edits)
		}
	}
}

// apply edits the sets by locality; localities without endpoints go.
func (g *groups) apply(old *groupList, edits map[model.Locality][]Edit) *groupList {
	sets := map[model.Locality]*Set{}
	for _, l := range old.localities {
		sets[l.locality] = l.members
	}
	for locality, e := range edits {
		from := sets[locality]
		if from == nil {
			from = emptySet
		}
		sets[locality] = g.store.Apply(from, e)
	}
	next := &groupList{}
	for _, locality := range slices.SortedFunc(maps.Keys(sets), compareLocality) {
		if sets[locality].Len() > 0 {
			next.localities = append(next.localities, localityGroup{locality: locality, members: sets[locality]})
		}
	}
	if slices.Equal(next.localities, old.localities) {
		return old
	}
	return next
}

func compareLocality(a, b model.Locality) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Subzone, b.Subzone))
}

// sweep forgets groups that no live assignment uses.
func (g *groups) sweep(live map[*groupList]bool) {
	for key, l := range g.known {
		if live[l] {
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
