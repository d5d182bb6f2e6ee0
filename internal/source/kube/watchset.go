package kube

import (
	"context"
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// watchSet is the watchers of one scope, a namespace or all namespaces: one watcher per resource.
// They begin and end together. Their first lists are delivered as one event. Those of the start are
// delivered in chunks as they are read: nothing is in force before the source is synced, and the
// receiver keeps less of an object than there is of it here.
type watchSet struct {
	namespace string // "" for all
	source    *Source
	resources []*resource
	cancel    context.CancelFunc
	watchers  sync.WaitGroup
	// stopRevisioned ends the watchers of kinds whose objects may name a revision, and again
	// watches in their place since then; nil before. Both are used by Run alone.
	stopRevisioned func()
	again          *watchSet
	// initial is set if the set began before the source was synced.
	initial bool

	// deliverMu orders deliveries against the exclusion of a namespace. Watchers deliver under its
	// read lock. The set in again has the same.
	deliverMu *sync.RWMutex
	// served are the namespaces that a set for all namespaces serves; nil for every one.
	served map[string]bool

	mu         sync.Mutex
	pending    int                   // first lists that are still missing
	firstLists []func(*source.Event) // the others
	done       chan struct{}         // closed when they were delivered
}

// start begins to watch resources in a scope.
func (s *Source) start(ctx context.Context, namespace string, only map[string]bool, all []*resource) *watchSet {
	t := &watchSet{
		namespace: namespace,
		source:    s,
		resources: all,
		deliverMu: &sync.RWMutex{},
		served:    only,
		initial:   !s.synced,
		pending:   len(all),
		done:      make(chan struct{}),
	}
	t.run(ctx)
	return t
}

// run starts the watchers.
func (t *watchSet) run(ctx context.Context) {
	ctx, t.cancel = context.WithCancel(ctx)
	named, cancel := context.WithCancel(ctx)
	var revisioned sync.WaitGroup
	t.stopRevisioned = func() {
		cancel()
		revisioned.Wait()
	}
	for _, r := range t.resources {
		w := newWatcher(t, r)
		if r.watch.Revisioned {
			revisioned.Go(func() { w.run(named) })
		} else {
			t.watchers.Go(func() { w.run(ctx) })
		}
	}
}

// stop ends the watchers. Nothing is delivered by them after it returns.
func (t *watchSet) stop() {
	t.cancel()
	t.watchers.Wait()
	t.stopRevisioned()
	if t.again != nil {
		t.again.stop()
	}
}

// delivered reports whether all first lists were delivered, also those of rereading.
func (t *watchSet) delivered() bool {
	return t.listed() && (t.again == nil || t.again.delivered())
}

// listed reports whether the first lists of the set itself were delivered.
func (t *watchSet) listed() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// serves reports whether objects of a namespace are delivered. The caller holds deliverMu.
func (t *watchSet) serves(namespace string) bool {
	return t.served == nil || namespace == "" || t.served[namespace]
}

// excludes reports early, before an object is read, whether its namespace is not served.
func (t *watchSet) excludes(namespace string) bool {
	t.deliverMu.RLock()
	defer t.deliverMu.RUnlock()
	return !t.serves(namespace)
}

// exclude stops serving a namespace and then calls then, which deals with what was delivered of it.
func (t *watchSet) exclude(namespace string, then func()) {
	t.deliverMu.Lock()
	defer t.deliverMu.Unlock()
	delete(t.served, namespace)
	then()
}

// deliverFirst adds a first list and waits until it is delivered with all others of the set. It
// returns false if ctx ended first. At the start it delivers the list at once and does not wait, so
// that the watcher passes on what changes while other lists are still being read.
func (t *watchSet) deliverFirst(ctx context.Context, list func(*source.Event)) bool {
	if t.initial {
		t.deliver(list)
		t.firstListDone()
		return true
	}
	t.mu.Lock()
	t.firstLists = append(t.firstLists, list)
	t.mu.Unlock()
	t.firstListDone()
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
		return t.listed()
	}
}

// firstListDone counts one first list down. The last one delivers them all.
func (t *watchSet) firstListDone() {
	t.mu.Lock()
	t.pending--
	last := t.pending == 0
	t.mu.Unlock()
	if !last {
		return
	}
	t.deliver(func(e *source.Event) {
		for _, list := range t.firstLists {
			list(e)
		}
	})
	t.firstLists = nil
	close(t.done)
	t.source.notifyListed()
}

// deliver hands the sink the event that fill fills.
func (t *watchSet) deliver(fill func(*source.Event)) {
	t.deliverMu.RLock()
	defer t.deliverMu.RUnlock()
	var e source.Event
	fill(&e)
	t.source.send(e)
	t.source.references.note(e.Changes)
	t.source.forwardSelection(e.Changes)
}
