package perf

import (
	"fmt"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// tracker records when changes reach proxies. A proxy has received a marked change when each
// resource group of the change has brought its marker or a later one, because an overtaken change
// is never sent. It has received the removal of a pod when it is told to remove the pod's endpoint,
// or receives an endpoint list without it, and it then has all earlier removals too. It is safe for
// concurrent use.
type tracker struct {
	// removalCluster is the cluster of the service whose removals are timed.
	removalCluster string

	mu       sync.Mutex
	groups   []resourceGroup // of the changes under way; empty if there are none
	marked   series          // by marker
	removals series
	removed  map[uint32]load.Marker // from the address of a pod to its removal
	proxies  map[string]*trackedProxy
	progress chan struct{} // latest-value: a change has reached all proxies
}

// series holds changes of one sort in the order of their writes, numbered from 1. A proxy that has
// received one has received those before it.
type series struct {
	changes []change
	times   *measure.Distribution // of all arrivals since startPhase
	proxies map[string]int        // how many proxies a new change affects, by namespace
}

// change is one of a series.
type change struct {
	written time.Time
	// namespace is that of the affected proxies; allNamespaces stands for all.
	namespace string
	missing   int // affected proxies that it has not reached
	reached   int
	last      time.Duration // the latest arrival
}

// trackedProxy is the state of one proxy.
type trackedProxy struct {
	namespace string
	seen      [numGroups]load.Marker
	// marked and removals are how many changes of each series the proxy has received. Removals
	// affect it only after its first sync, because it can lose only what it had.
	marked, removals load.Marker
	synced           bool
}

func newTracker(churned string) *tracker {
	t := &tracker{
		removalCluster: churned,
		proxies:        map[string]*trackedProxy{},
		removed:        map[uint32]load.Marker{},
		progress:       make(chan struct{}, 1),
	}
	for _, s := range []*series{&t.marked, &t.removals} {
		s.proxies, s.times = map[string]int{}, measure.NewDistribution()
	}
	return t
}

// allNamespaces is the key of all namespaces together in a series.
const allNamespaces = ""

func (s *series) count(namespace string, n int) {
	s.proxies[namespace] += n
	s.proxies[allNamespaces] += n
}

func (s *series) begin(namespace string) load.Marker {
	s.changes = append(s.changes, change{written: time.Now(), namespace: namespace, missing: s.proxies[namespace]})
	return load.Marker(len(s.changes))
}

// advance records that a proxy has received the changes after from, up to to. It reports whether
// any of them has now reached all proxies.
func (s *series) advance(w *trackedProxy, from, to load.Marker, at time.Time) (all bool) {
	for ; from < to; from++ {
		c := &s.changes[from]
		if !c.affects(w) {
			continue
		}
		took := at.Sub(c.written)
		s.times.Add(took)
		c.reached++
		c.last = max(c.last, took)
		c.missing--
		all = all || c.missing == 0
	}
	return all
}

// stopWaitingFor removes a proxy that has received so many changes from the missing ones of the
// rest.
func (s *series) stopWaitingFor(w *trackedProxy, had load.Marker) {
	s.count(w.namespace, -1)
	for i := int(had); i < len(s.changes); i++ {
		if s.changes[i].affects(w) {
			s.changes[i].missing--
		}
	}
}

// countComplete returns how many of the changes after one have reached all affected proxies.
func (s *series) countComplete(after load.Marker) (n int) {
	for _, c := range s.changes[after:] {
		if c.missing <= 0 {
			n++
		}
	}
	return n
}

// latencies summarises the changes after one: all arrivals, and the last arrival of each change.
func (s *series) latencies(after load.Marker) (all, last *measure.Summary) {
	ends := measure.NewDistribution()
	for _, c := range s.changes[after:] {
		if c.reached > 0 {
			ends.Add(c.last)
		}
	}
	return s.times.Summary(), ends.Summary()
}

func (c *change) affects(w *trackedProxy) bool {
	return c.namespace == allNamespaces || c.namespace == w.namespace
}

// baseline is how many changes each series had at some time.
type baseline struct{ marked, removals load.Marker }

// startPhase starts the measurement of changes that arrive by the given groups, and of removals.
func (t *tracker) startPhase(needs ...resourceGroup) baseline {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.groups = needs
	t.marked.times, t.removals.times = measure.NewDistribution(), measure.NewDistribution()
	now := baseline{load.Marker(len(t.marked.changes)), load.Marker(len(t.removals.changes))}
	for _, w := range t.proxies {
		w.marked = now.marked
	}
	return now
}

// begin registers a change that affects the proxies of a namespace, or of allNamespaces, and
// returns its marker. It is called just before the write.
func (t *tracker) begin(namespace string) load.Marker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marked.begin(namespace)
}

// beginRemoval registers the removal of a pod of the timed service. It is called just before the
// write.
func (t *tracker) beginRemoval(namespace, address string) {
	a, _ := load.Address([]byte(address)) // load makes them
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removed[a] = t.removals.begin(namespace)
}

// join adds a proxy that connects. Earlier changes are part of its first configuration.
func (t *tracker) join(pod, namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.proxies[pod] = &trackedProxy{namespace: namespace, marked: load.Marker(len(t.marked.changes))}
	t.marked.count(namespace, 1)
}

// markSynced records that a proxy is in sync.
func (t *tracker) markSynced(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.proxies[pod]; w != nil && !w.synced {
		w.synced, w.removals = true, load.Marker(len(t.removals.changes))
		t.removals.count(w.namespace, 1)
	}
}

// leave removes a proxy that stops, so that no change waits for it. A proxy that has not joined is
// ignored.
func (t *tracker) leave(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.proxies[pod]
	if w == nil {
		return
	}
	delete(t.proxies, pod)
	t.marked.stopWaitingFor(w, w.marked)
	if w.synced {
		t.removals.stopWaitingFor(w, w.removals)
	}
	t.signal()
}

// arrived is called when a proxy has received a marked resource or its removal.
func (t *tracker) arrived(pod string, bits uint64, removed bool, at time.Time) {
	m := mark(bits)
	if !removed && m.isMember() && m.change() == 0 || removed && !m.isMember() {
		return // an unchanged endpoint of the mesh: there are very many
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.proxies[pod]
	if w == nil {
		return
	}
	without := load.Marker(m.rest())
	switch {
	case removed:
		without = t.removed[m.rest()]
	case m.isMember():
		without = 0
	}
	all := w.synced && t.removals.advance(w, w.removals, without, at)
	if w.synced {
		w.removals = max(w.removals, without)
	}
	if !removed && t.receiveMarker(w, m, at) || all {
		t.signal()
	}
}

// receiveMarker records that a group has brought a marker to a proxy. It reports whether a change
// has now reached all proxies.
func (t *tracker) receiveMarker(w *trackedProxy, m mark, at time.Time) (all bool) {
	l := m.group()
	if m.change() <= w.seen[l] {
		return false
	}
	w.seen[l] = m.change()
	has := load.Marker(len(t.marked.changes))
	for _, l := range t.groups {
		has = min(has, w.seen[l])
	}
	all = t.marked.advance(w, w.marked, has, at)
	w.marked = max(w.marked, has)
	return all
}

func (t *tracker) signal() {
	select {
	case t.progress <- struct{}{}:
	default:
	}
}

// countComplete returns how many changes and removals since the baseline have reached all affected
// proxies.
func (t *tracker) countComplete(s baseline) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marked.countComplete(s.marked) + t.removals.countComplete(s.removals)
}

// describeMissing describes one change since the baseline that has not reached all proxies, and
// names a proxy.
func (t *tracker) describeMissing(s baseline) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, sort := range []struct {
		name  string
		of    *series
		after load.Marker
		has   func(*trackedProxy) load.Marker
	}{
		{"removal", &t.removals, s.removals, func(w *trackedProxy) load.Marker { return w.removals }},
		{"change", &t.marked, s.marked, func(w *trackedProxy) load.Marker { return w.marked }},
	} {
		for i := int(sort.after); i < len(sort.of.changes); i++ {
			if c := sort.of.changes[i]; c.missing > 0 {
				return fmt.Sprintf(
					"%s %d of %d has come to %d sidecars and not to %d, as %s",
					sort.name,
					i+1-int(sort.after),
					len(sort.of.changes)-int(sort.after),
					c.reached,
					c.missing,
					t.firstMissing(
						&c, load.Marker(i), sort.has,
					),
				)
			}
		}
	}
	return "all have arrived"
}

// firstMissing returns the first affected proxy, by name, that a change has not reached.
func (t *tracker) firstMissing(c *change, before load.Marker, has func(*trackedProxy) load.Marker) (pod string) {
	for name, w := range t.proxies {
		if c.affects(w) && has(w) <= before && (pod == "" || name < pod) {
			pod = name
		}
	}
	return pod
}

// report fills in the latencies since the baseline.
func (t *tracker) report(s baseline, p *Phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.Latency, p.Last = t.marked.latencies(s.marked)
	if len(t.removals.changes) > int(s.removals) {
		p.Removal, p.LastRemoval = t.removals.latencies(s.removals)
	}
}
