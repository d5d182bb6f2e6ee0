package perf

import (
	"fmt"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// tracker keeps when changes arrived. A proxy has a marked change when each lane that the change goes by has brought its marker or a
// later one, as what is overtaken is never sent. It has the removal of a pod when it is told to remove that pod's endpoint, or has a list
// of endpoints without it, and then those before. It is safe for concurrent use.
type tracker struct {
	// churned is the cluster of the service whose removals are timed.
	churned string

	mu       sync.Mutex
	needs    []lane // empty: no changes are under way
	marked   series // by marker
	removals series
	removed  map[uint32]load.Marker // address of a pod to its removal
	watchers map[string]*watcher
	progress chan struct{} // latest-value: a change has arrived everywhere
}

// series are changes of one sort in the order in which they were written, the first is 1: who has one has those before it.
type series struct {
	changes []change
	times   *measure.Distribution // of all arrivals since the last watch
	present map[string]int        // watchers that new changes concern, by namespace
}

// change is one of a series.
type change struct {
	written time.Time
	// namespace is the one whose proxies it concerns; empty stands for all.
	namespace string
	missing   int // proxies that it concerns and has not reached
	reached   int
	last      time.Duration // the latest arrival
}

// watcher is one proxy, as the tracker sees it.
type watcher struct {
	namespace string
	seen      [numLanes]load.Marker
	// marked and removals are how far it is in the two series. Removals concern it from when it was first in sync: what it is told to
	// remove it must have had.
	marked, removals load.Marker
	settled          bool
}

func newTracker(churned string) *tracker {
	t := &tracker{churned: churned, watchers: map[string]*watcher{}, removed: map[uint32]load.Marker{}, progress: make(chan struct{}, 1)}
	for _, s := range []*series{&t.marked, &t.removals} {
		s.present, s.times = map[string]int{}, measure.NewDistribution()
	}
	return t
}

// everywhere is the key of all namespaces together in a series.
const everywhere = ""

func (s *series) count(namespace string, n int) {
	s.present[namespace] += n
	s.present[everywhere] += n
}

func (s *series) begin(namespace string) load.Marker {
	s.changes = append(s.changes, change{written: time.Now(), namespace: namespace, missing: s.present[namespace]})
	return load.Marker(len(s.changes))
}

// advance lets a proxy have the changes from one on up to another, and tells whether any of them has now reached all.
func (s *series) advance(w *watcher, from, to load.Marker, at time.Time) (all bool) {
	for ; from < to; from++ {
		c := &s.changes[from]
		if !c.concerns(w) {
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

// abandon lets nobody wait for a proxy any more that has had the changes up to one.
func (s *series) abandon(w *watcher, had load.Marker) {
	s.count(w.namespace, -1)
	for i := int(had); i < len(s.changes); i++ {
		if s.changes[i].concerns(w) {
			s.changes[i].missing--
		}
	}
}

// complete is how many of the changes after one have reached all whom they concern.
func (s *series) complete(after load.Marker) (n int) {
	for _, c := range s.changes[after:] {
		if c.missing <= 0 {
			n++
		}
	}
	return n
}

// latencies are those of the changes after one: of each arrival, and of each change's last arrival.
func (s *series) latencies(after load.Marker) (all, last *measure.Summary) {
	ends := measure.NewDistribution()
	for _, c := range s.changes[after:] {
		if c.reached > 0 {
			ends.Add(c.last)
		}
	}
	return s.times.Summary(), ends.Summary()
}

func (c *change) concerns(w *watcher) bool {
	return c.namespace == everywhere || c.namespace == w.namespace
}

// since is a time between changes: how many there were before.
type since struct{ marked, removals load.Marker }

// watch prepares for changes that go by these lanes, and for removals.
func (t *tracker) watch(needs ...lane) since {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.needs = needs
	t.marked.times, t.removals.times = measure.NewDistribution(), measure.NewDistribution()
	now := since{load.Marker(len(t.marked.changes)), load.Marker(len(t.removals.changes))}
	for _, w := range t.watchers {
		w.marked = now.marked
	}
	return now
}

// begin is called just before a change is written that concerns the proxies of a namespace, or all if that is empty. It returns its
// marker.
func (t *tracker) begin(namespace string) load.Marker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marked.begin(namespace)
}

// beginRemoval is called just before a pod of the churned service is removed.
func (t *tracker) beginRemoval(namespace, address string) {
	a, _ := load.Address([]byte(address)) // load makes them
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removed[a] = t.removals.begin(namespace)
}

// join is a proxy that connects: what was written before comes with its first configuration.
func (t *tracker) join(pod, namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers[pod] = &watcher{namespace: namespace, marked: load.Marker(len(t.marked.changes))}
	t.marked.count(namespace, 1)
}

// settle is a proxy that is in sync.
func (t *tracker) settle(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.watchers[pod]; w != nil && !w.settled {
		w.settled, w.removals = true, load.Marker(len(t.removals.changes))
		t.removals.count(w.namespace, 1)
	}
}

// leave is a proxy that goes: nobody waits for it any more. Of one that has not joined nothing is known.
func (t *tracker) leave(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watchers[pod]
	if w == nil {
		return
	}
	delete(t.watchers, pod)
	t.marked.abandon(w, w.marked)
	if w.settled {
		t.removals.abandon(w, w.removals)
	}
	t.signal()
}

// arrived is called when a resource with a mark has come to a proxy, or was taken from it.
func (t *tracker) arrived(pod string, bits uint64, removed bool, at time.Time) {
	m := mark(bits)
	if !removed && m.isMember() && m.change() == 0 || removed && !m.isMember() {
		return // an endpoint of the mesh as it was: there are very many
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watchers[pod]
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
	all := w.settled && t.removals.advance(w, w.removals, without, at)
	if w.settled {
		w.removals = max(w.removals, without)
	}
	if !removed && t.bring(w, m, at) || all {
		t.signal()
	}
}

// bring is a marker that has come to a proxy by a lane. It tells whether a change has now reached all.
func (t *tracker) bring(w *watcher, m mark, at time.Time) (all bool) {
	l := m.lane()
	if m.change() <= w.seen[l] {
		return false
	}
	w.seen[l] = m.change()
	has := load.Marker(len(t.marked.changes))
	for _, l := range t.needs {
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

// complete is how many changes and removals since then have reached all whom they concern.
func (t *tracker) complete(s since) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marked.complete(s.marked) + t.removals.complete(s.removals)
}

// lacking tells of one change since then that has not reached all, and whom not.
func (t *tracker) lacking(s since) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, sort := range []struct {
		name  string
		of    *series
		after load.Marker
		has   func(*watcher) load.Marker
	}{
		{"removal", &t.removals, s.removals, func(w *watcher) load.Marker { return w.removals }},
		{"change", &t.marked, s.marked, func(w *watcher) load.Marker { return w.marked }},
	} {
		for i := int(sort.after); i < len(sort.of.changes); i++ {
			if c := sort.of.changes[i]; c.missing > 0 {
				return fmt.Sprintf("%s %d of %d has come to %d sidecars and not to %d, as %s",
					sort.name, i+1-int(sort.after), len(sort.of.changes)-int(sort.after), c.reached, c.missing, t.whoLacks(&c, load.Marker(i), sort.has))
			}
		}
	}
	return "all have arrived"
}

// whoLacks names one of those that a change concerns and has not reached, the first by name.
func (t *tracker) whoLacks(c *change, before load.Marker, has func(*watcher) load.Marker) (pod string) {
	for name, w := range t.watchers {
		if c.concerns(w) && has(w) <= before && (pod == "" || name < pod) {
			pod = name
		}
	}
	return pod
}

// report tells the times since then.
func (t *tracker) report(s since, p *Phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.Latency, p.Last = t.marked.latencies(s.marked)
	if len(t.removals.changes) > int(s.removals) {
		p.Removal, p.LastRemoval = t.removals.latencies(s.removals)
	}
}
