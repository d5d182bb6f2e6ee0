package livemesh

import (
	"context"
	"sync"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
)

// tap stands between the runtime and the pipeline and tells when a marker has passed.
type tap struct {
	*local.Runtime

	mu      sync.Mutex
	waiting map[source.Key]chan *local.Snapshot
}

func newTap(r *local.Runtime) *tap {
	return &tap{Runtime: r, waiting: map[source.Key]chan *local.Snapshot{}}
}

// Run implements source.Source.
func (t *tap) Run(ctx context.Context, sink source.Sink) error {
	return t.Runtime.Run(ctx, func(e source.Event) {
		sink(e)
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, c := range e.Changes {
			if passed := t.waiting[c.Key]; passed != nil && c.Object != nil {
				passed <- t.Snapshot() // the runtime publishes the next one after this event
				delete(t.waiting, c.Key)
			}
		}
	})
}

// expect gives a channel that takes the runtime's snapshot of when the object passed: later ones
// know what the directory had by then.
func (t *tap) expect(key source.Key) <-chan *local.Snapshot {
	passed := make(chan *local.Snapshot, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[key] = passed
	return passed
}
