package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/ingest"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// An endpoint may move from one EndpointSlice to another, and whoever writes them may take it out of the one before it puts it into the
// other. So an endpoint that no slice lists any more, though its Pod is there, does not end and is selected, is kept for a while.
// What is kept stands in the world as a slice of its own, the bridge: the world is still what its objects say, and
// an endpoint on a bridge goes with its Pod as any other does.

// bridges are the endpoints that have been lost by a slice and not been found in another one yet, and what tells that they are not to be kept.
type bridges struct {
	spans map[source.Key]*bridge
	// due is when the first of them has been kept long enough; zero if there are none.
	due time.Time

	// ending are the Pods that are being deleted.
	ending map[source.Key]bool
}

// bridge has the lost endpoints of a port of a service.
type bridge struct {
	service source.Key
	port    model.SlicePort
	hosts   map[string]crossing // by address
}

type crossing struct {
	host  model.SliceHost
	until time.Time
}

func newBridges() bridges {
	return bridges{spans: map[source.Key]*bridge{}, ending: map[source.Key]bool{}}
}

func (b *bridges) empty() bool { return len(b.spans) == 0 }

// learn notes of a Pod what is not in the world.
func (b *bridges) learn(k source.Key, said ingest.Result) {
	if k.Kind != kinds.Pod {
		return
	}
	delete(b.ending, k)
	if said.Ending {
		b.ending[k] = true
	}
}

// cross keeps what a step took away and may be about to come back, and lets go of what was kept and need not be any more.
func (l *Loop) cross(w *state.World, d *state.Delta) (*state.World, *state.Delta) {
	b, now := &l.bridges, time.Now()
	touched := map[source.Key]*bridge{}
	for _, c := range d.Endpoints {
		l.takeLost(w, c, now, touched)
	}
	for k, span := range b.spans {
		selector := l.selectorOf(w, span.service)
		for address, c := range span.hosts {
			if !now.Before(c.until) || !b.stays(w, span.service, selector, c.host) {
				delete(span.hosts, address)
				touched[k] = span
			}
		}
	}
	updates := b.settle(touched, now)
	if len(updates) == 0 {
		return w, d
	}
	next, then := l.writer.Apply(updates)
	return next, d.Then(then)
}

// takeLost puts on bridges those endpoints of one service that were there before a step and are not after it.
func (l *Loop) takeLost(w *state.World, c state.EndpointChange, now time.Time, touched map[source.Key]*bridge) {
	if l.o.Debounce.Moves == 0 || c.Entry != "" {
		return
	}
	s := kubernetesService(w, c.Host, c.Namespace)
	if s == nil {
		return
	}
	selector := l.selectorOf(w, s.Key())
	for _, id := range c.IDs {
		e, was := c.From.Get(id)
		if _, is := c.To.Get(id); !was || is || e.Workload == "" || e.Health != model.Healthy {
			continue
		}
		host := hostOf(&e, c.Namespace)
		if !l.bridges.stays(w, s.Key(), selector, host) {
			continue
		}
		k, span := l.bridges.span(s.Key(), model.SlicePort{Name: e.PortName, Port: e.Port})
		span.hosts[host.Address] = crossing{host, now.Add(l.o.Debounce.Moves)}
		touched[k] = span
	}
}

// hostOf is what a slice said of an endpoint of a namespace that a Pod serves.
func hostOf(e *model.Endpoint, namespace string) model.SliceHost {
	return model.SliceHost{
		Address: e.Address, Health: e.Health, Pod: e.Workload[len(namespace)+1:], Node: e.Node, Zone: e.Locality.Zone, Hints: e.Hints,
	}
}

// span is the bridge of a port. No slice of Kubernetes has a name like that of its key, and all have one that comes before it: what they say
// of an endpoint counts first.
func (b *bridges) span(service source.Key, p model.SlicePort) (source.Key, *bridge) {
	k := source.Key{
		Kind: kinds.EndpointSlice, Namespace: service.Namespace, Name: fmt.Sprintf("~%s (lost, port %s %d)", service.Name, p.Name, p.Port),
	}
	if b.spans[k] == nil {
		b.spans[k] = &bridge{service: service, port: p, hosts: map[string]crossing{}}
	}
	return k, b.spans[k]
}

// stays tells whether a host that a slice of a service has lost is one of its hosts still, for all that is known.
func (b *bridges) stays(w *state.World, service source.Key, selector model.Labels, h model.SliceHost) bool {
	pod := w.Workload(service.Namespace, h.Pod)
	return pod != nil && slices.Contains(pod.Addresses, h.Address) && !b.ending[pod.Key()] &&
		!selector.IsEmpty() && selector.Selects(pod.Labels) && !b.listed(w, service, h)
}

// listed tells whether a slice of a service lists a host, in whatever condition and on whatever ports: then that holds.
func (b *bridges) listed(w *state.World, service source.Key, h model.SliceHost) bool {
	for s := range w.SlicesNaming(service.Namespace, h.Pod) {
		if s.Service != service.Name || b.spans[s.Key()] != nil {
			continue
		}
		if slices.Contains(s.Unready, h.Pod) || slices.ContainsFunc(s.Hosts, func(o model.SliceHost) bool { return o.Pod == h.Pod && o.Address == h.Address }) {
			return true
		}
	}
	return false
}

// selectorOf is what a Service selects, be that applied or about to be; nothing if there is no such Service.
func (l *Loop) selectorOf(w *state.World, service source.Key) model.Labels {
	if c, waits := l.pending.changes[service]; waits {
		if given := l.o.Converter.Convert(c, l.meshNow()).Objects; len(given) > 0 {
			return given[0].(*model.Service).Selector
		}
		return model.Labels{}
	}
	if s := kubernetesService(w, model.Resolve(service.Name, service.Namespace, w.Mesh.Domain), service.Namespace); s != nil {
		return s.Selector
	}
	return model.Labels{}
}

func kubernetesService(w *state.World, host model.Host, namespace string) *model.Service {
	for s := range w.Claims(host) {
		if s.Kind == kinds.Service && s.Namespace == namespace {
			return s
		}
	}
	return nil
}

// settle is what becomes of the slices that stand for bridges, in the order of their names.
func (b *bridges) settle(touched map[source.Key]*bridge, now time.Time) []state.Update {
	var updates []state.Update
	for _, k := range slices.SortedFunc(maps.Keys(touched), source.Key.Compare) {
		if len(touched[k].hosts) == 0 {
			delete(b.spans, k)
		}
		updates = append(updates, touched[k].update(k, now))
	}
	if len(updates) == 0 {
		return nil
	}
	b.due = time.Time{}
	for _, span := range b.spans {
		for _, c := range span.hosts {
			if b.due.IsZero() || c.until.Before(b.due) {
				b.due = c.until
			}
		}
	}
	return updates
}

func (s *bridge) update(k source.Key, now time.Time) state.Update {
	u := state.Update{Key: k, Observed: now}
	if len(s.hosts) == 0 {
		return u
	}
	slice := &model.EndpointSlice{
		Meta:    model.Meta{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name},
		Service: s.service.Name, Ports: []model.SlicePort{s.port},
	}
	for _, c := range s.hosts {
		slice.Hosts = append(slice.Hosts, c.host)
	}
	slices.SortFunc(slice.Hosts, func(a, b model.SliceHost) int { return cmp.Compare(a.Address, b.Address) })
	u.Objects = []model.Object{slice}
	return u
}
