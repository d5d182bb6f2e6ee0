package kube

import "sync"

// board wakes the watchers of resources that do not exist when their CustomResourceDefinitions change.
type board struct {
	mu      sync.Mutex
	waiting map[string]chan struct{} // by the definition's name; closed when it changes
	watched bool
}

func newBoard() *board { return &board{waiting: map[string]chan struct{}{}} }

// wait gives the channel that is closed when the definition changes next.
func (b *board) wait(name string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[name] == nil {
		b.waiting[name] = make(chan struct{})
	}
	return b.waiting[name]
}

func (b *board) poke(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.waiting[name]; c != nil {
		close(c)
		delete(b.waiting, name)
	}
}

// live notes whether definitions are watched at all.
func (b *board) live(watched bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = watched
}

func (b *board) isLive() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watched
}
