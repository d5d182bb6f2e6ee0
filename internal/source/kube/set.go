package kube

import (
	"context"
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// set is the watchers of one scope, one per resource, which begin and end together: a namespace, or all of them. Their first
// lists are delivered as one event, those of the start in portions: nothing is in force before the source is synced, and who takes them
// keeps less of an object than there is of it here.
type set struct {
	namespace string // "" for all
	source    *Source
	cancel    context.CancelFunc
	watchers  sync.WaitGroup
	// initial tells that it began before the source was synced.
	initial bool

	// served orders deliveries against a namespace that is taken out: watchers deliver under its reading side.
	served sync.RWMutex
	// only are the namespaces of a set of all that it serves; nil for whatever there is.
	only map[string]bool

	mu      sync.Mutex
	waiting int                   // first lists that are not there yet
	first   []func(*source.Event) // those that are
	done    chan struct{}         // closed when they were delivered
}

// start begins to watch resources in a scope.
func (s *Source) start(ctx context.Context, namespace string, only map[string]bool, all []*resource) *set {
	ctx, cancel := context.WithCancel(ctx)
	t := &set{namespace: namespace, source: s, cancel: cancel, only: only, initial: !s.synced, waiting: len(all), done: make(chan struct{})}
	for _, r := range all {
		w := newWatcher(t, r)
		t.watchers.Go(func() { w.run(ctx) })
	}
	return t
}

// stop ends the watchers, and returns when nothing comes from them any more.
func (t *set) stop() {
	t.cancel()
	t.watchers.Wait()
}

// delivered tells that the first lists were.
func (t *set) delivered() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// serves is asked with the reading side of served held.
func (t *set) serves(namespace string) bool {
	return t.only == nil || namespace == "" || t.only[namespace]
}

// ignores tells early that nothing of a namespace is wanted.
func (t *set) ignores(namespace string) bool {
	t.served.RLock()
	defer t.served.RUnlock()
	return !t.serves(namespace)
}

// exclude ends the service of a namespace, and then does what is to be done about what was delivered of it.
func (t *set) exclude(namespace string, then func()) {
	t.served.Lock()
	defer t.served.Unlock()
	delete(t.only, namespace)
	then()
}

// arrive gives a first list, and waits until it is delivered with all others of the set; false if ctx ended before.
func (t *set) arrive(ctx context.Context, list func(*source.Event)) bool {
	t.mu.Lock()
	t.first = append(t.first, list)
	t.mu.Unlock()
	t.drop()
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
		return t.delivered()
	}
}

// drop says that one first list less is waited for. Whoever is the last delivers them.
func (t *set) drop() {
	t.mu.Lock()
	t.waiting--
	last := t.waiting == 0
	t.mu.Unlock()
	if !last {
		return
	}
	t.deliver(func(e *source.Event) {
		for _, list := range t.first {
			list(e)
		}
	})
	t.first = nil
	close(t.done)
	t.source.nudge()
}

// deliver hands the sink what fill says.
func (t *set) deliver(fill func(*source.Event)) {
	t.served.RLock()
	defer t.served.RUnlock()
	var e source.Event
	fill(&e)
	t.source.send(e)
	t.source.news(e.Changes)
}
