package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// endpointGrace keeps an endpoint for Debounce.Moves after its EndpointSlice has dropped it. An
// endpoint may move between slices, and the controller may remove it from the old slice before it
// adds it to the new one. It is kept if no slice lists it and its Pod exists, is not terminating
// and is selected. A kept endpoint is in the mesh as part of a slice of its own, so it goes with
// its Pod like any other.
type endpointGrace struct {
	keepFor time.Duration
	// selector is what a Service selects, be that applied or about to be.
	selector func(*state.Snapshot, source.Key) model.Labels

	// kept are the endpoints, by the key of the slice that they stand in.
	kept map[source.Key]*keptSlice
	// ends is when the first of them has been kept long enough; zero if there are none.
	ends time.Time
	// terminating are the Pods that are being deleted.
	terminating map[source.Key]bool
}

// keptSlice has the kept endpoints of a port of a service.
type keptSlice struct {
	service source.Key
	port    model.SlicePort
	hosts   map[string]keptHost // by address
}

type keptHost struct {
	host  model.SliceHost
	until time.Time
}

func newEndpointGrace(keepFor time.Duration, selector func(*state.Snapshot, source.Key) model.Labels) endpointGrace {
	return endpointGrace{
		keepFor: keepFor, selector: selector, kept: map[source.Key]*keptSlice{}, terminating: map[source.Key]bool{},
	}
}

// converted notes of a Pod what does not stand in the mesh.
func (g *endpointGrace) converted(k source.Key, r convert.Result) {
	if k.Kind != kinds.Pod {
		return
	}
	delete(g.terminating, k)
	if r.Terminating {
		g.terminating[k] = true
	}
}

// step gives the updates of the slices with kept endpoints after a step: what it took away and may
// be about to come back is kept, and what need not be kept any more goes.
func (g *endpointGrace) step(snap *state.Snapshot, d *state.Delta, now time.Time) []state.Update {
	touched := map[source.Key]*keptSlice{}
	for _, c := range d.Endpoints {
		g.keepLost(snap, c, now, touched)
	}
	for k, slice := range g.kept {
		selector := g.selector(snap, slice.service)
		for address, h := range slice.hosts {
			if !now.Before(h.until) || !g.isValid(snap, slice.service, selector, h.host) {
				delete(slice.hosts, address)
				touched[k] = slice
			}
		}
	}
	return g.updates(touched, now)
}

// keepLost keeps those endpoints of one service that were there before a step and are not after it.
func (g *endpointGrace) keepLost(
	snap *state.Snapshot, c state.EndpointChange, now time.Time, touched map[source.Key]*keptSlice,
) {
	if g.keepFor == 0 || c.Entry != "" {
		return
	}
	s := kubernetesService(snap, c.Host, c.Namespace)
	if s == nil {
		return
	}
	selector := g.selector(snap, s.Key())
	for _, id := range c.IDs {
		e, was := c.From.Get(id)
		if _, is := c.To.Get(id); !was || is || e.Workload == "" || e.Health != model.Healthy {
			continue
		}
		host := hostOf(&e, c.Namespace)
		if !g.isValid(snap, s.Key(), selector, host) {
			continue
		}
		k, slice := g.sliceFor(s.Key(), model.SlicePort{Name: e.PortName, Port: e.Port})
		slice.hosts[host.Address] = keptHost{host, now.Add(g.keepFor)}
		touched[k] = slice
	}
}

// hostOf is what a slice said of an endpoint of a namespace that a Pod serves.
func hostOf(e *model.Endpoint, namespace string) model.SliceHost {
	return model.SliceHost{
		Address: e.Address, Health: e.Health, Pod: e.Workload[len(namespace)+1:], Node: e.Node,
		Zone: e.Locality.Zone, Hints: e.Hints, Hostname: e.Hostname,
	}
}

// sliceFor is the slice with the kept endpoints of a port. No slice of Kubernetes has a name like
// that of its key, and all have one that comes before it: what they say of an endpoint counts
// first.
func (g *endpointGrace) sliceFor(service source.Key, p model.SlicePort) (source.Key, *keptSlice) {
	k := source.Key{
		Kind: kinds.EndpointSlice, Namespace: service.Namespace,
		Name: fmt.Sprintf("~%s (lost, port %s %d)", service.Name, p.Name, p.Port),
	}
	if g.kept[k] == nil {
		g.kept[k] = &keptSlice{service: service, port: p, hosts: map[string]keptHost{}}
	}
	return k, g.kept[k]
}

// isValid reports whether a host that a slice dropped still belongs to the service, as far as is
// known.
func (g *endpointGrace) isValid(
	snap *state.Snapshot, service source.Key, selector model.Labels, h model.SliceHost,
) bool {
	pod := snap.Workload(service.Namespace, h.Pod)
	return pod != nil && slices.Contains(pod.Addresses, h.Address) && !g.terminating[pod.Key()] &&
		!selector.IsEmpty() && selector.Selects(pod.Labels) && !g.listed(snap, service, h)
}

// listed reports whether a slice of a service lists a host, on any ports and in any condition. Then
// the slice counts.
func (g *endpointGrace) listed(snap *state.Snapshot, service source.Key, h model.SliceHost) bool {
	same := func(o model.SliceHost) bool { return o.Pod == h.Pod && o.Address == h.Address }
	for s := range snap.SlicesNaming(service.Namespace, h.Pod) {
		if s.Service != service.Name || g.kept[s.Key()] != nil {
			continue
		}
		if slices.Contains(s.Unready, h.Pod) || slices.ContainsFunc(s.Hosts, same) {
			return true
		}
	}
	return false
}

func kubernetesService(snap *state.Snapshot, host model.Host, namespace string) *model.Service {
	for s := range snap.Claims(host) {
		if s.Kind == kinds.Service && s.Namespace == namespace {
			return s
		}
	}
	return nil
}

// updates returns the new state of the touched slices, in the order of their names.
func (g *endpointGrace) updates(touched map[source.Key]*keptSlice, now time.Time) []state.Update {
	var updates []state.Update
	for _, k := range slices.SortedFunc(maps.Keys(touched), source.Key.Compare) {
		if len(touched[k].hosts) == 0 {
			delete(g.kept, k)
		}
		updates = append(updates, touched[k].update(k, now))
	}
	if len(updates) == 0 {
		return nil
	}
	g.ends = time.Time{}
	for _, slice := range g.kept {
		for _, h := range slice.hosts {
			if g.ends.IsZero() || h.until.Before(g.ends) {
				g.ends = h.until
			}
		}
	}
	return updates
}

func (s *keptSlice) update(k source.Key, now time.Time) state.Update {
	u := state.Update{Key: k, Observed: now}
	if len(s.hosts) == 0 {
		return u
	}
	slice := &model.EndpointSlice{
		Meta:    model.Meta{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name},
		Service: s.service.Name, Ports: []model.SlicePort{s.port},
	}
	for _, h := range s.hosts {
		slice.Hosts = append(slice.Hosts, h.host)
	}
	slices.SortFunc(slice.Hosts, func(a, b model.SliceHost) int { return cmp.Compare(a.Address, b.Address) })
	u.Objects = []model.Object{slice}
	return u
}
