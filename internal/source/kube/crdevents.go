package kube

import "sync"

// crdEvents wakes the watchers of resources that do not exist when their CustomResourceDefinitions
// change.
type crdEvents struct {
	mu      sync.Mutex
	waiting map[string]chan struct{} // by the definition's name; closed when it changes
	watched bool
}

func newCRDEvents() *crdEvents { return &crdEvents{waiting: map[string]chan struct{}{}} }

// wait returns a channel that is closed at the next change of the definition.
func (b *crdEvents) wait(name string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[name] == nil {
		b.waiting[name] = make(chan struct{})
	}
	return b.waiting[name]
}

// notify wakes those who wait for a definition.
func (b *crdEvents) notify(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.waiting[name]; c != nil {
		close(c)
		delete(b.waiting, name)
	}
}

// setWatched records whether definitions can be watched at all.
func (b *crdEvents) setWatched(watched bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = watched
}

func (b *crdEvents) isWatched() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watched
}
