package status

import "github.com/lateen-mesh/lateen/internal/source"

// batches passes on, at the end of each batch, which objects are to be written anew. Whoever has it
// locks it.
type batches struct {
	changed map[source.Key]bool // since the last batch
	// firstBatch is closed with the first batch. Before that, what is missing may only be late.
	firstBatch chan struct{}
	started    bool
	// listener is called with each object that has changed; nil while nobody writes. It must not
	// block.
	listener func(source.Key)
}

func newBatches() batches {
	return batches{changed: map[source.Key]bool{}, firstBatch: make(chan struct{})}
}

// ended tells the listener what the batch has changed.
func (b *batches) ended() {
	for k := range b.changed {
		if b.listener != nil {
			b.listener(k)
		}
	}
	clear(b.changed)
	if !b.started {
		b.started = true
		close(b.firstBatch)
	}
}
