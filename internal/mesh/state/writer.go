package state

import (
	"sync/atomic"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Update is what one source object is now: the model objects that it gives, none when it went away or gives nothing.
type Update struct {
	Key      source.Key
	Objects  []model.Object
	Observed time.Time
}

// Writer takes the mesh from generation to generation, each a Snapshot. It is used by one goroutine.
type Writer struct {
	snapshot *Snapshot
	// given are the model objects of each source object; those of Pods are in the snapshot under its name.
	given map[source.Key][]model.Object
}

// NewWriter starts with an empty snapshot at generation 0.
func NewWriter() *Writer { return newWriter(nil) }

// NewCountingWriter is NewWriter for tests: Snapshot.Lookups counts what is looked at. That no question
// costs more in a larger mesh is a promise, and tests hold the snapshots to it.
func NewCountingWriter() *Writer { return newWriter(&atomic.Uint64{}) }

func newWriter(lookups *atomic.Uint64) *Writer {
	return &Writer{snapshot: emptySnapshot(lookups), given: map[source.Key][]model.Object{}}
}

// Snapshot is the present generation.
func (w *Writer) Snapshot() *Snapshot { return w.snapshot }

// Apply makes a batch of updates in one step; of several of one object the last one counts. When nothing changes, the snapshot
// stays the same pointer and the Delta is empty.
func (w *Writer) Apply(updates []Update) (*Snapshot, *Delta) {
	b := newBatch(w.snapshot)
	for _, u := range lastOfEach(updates) {
		kept, changed := b.replace(w.gave(u.Key), u.Objects)
		if changed {
			b.delta.Changed = append(b.delta.Changed, u.Key)
			if b.delta.Observed.IsZero() || u.Observed.Before(b.delta.Observed) {
				b.delta.Observed = u.Observed
			}
		}
		w.remember(u.Key, kept)
	}
	b.joinEndpoints()
	next := b.finish()
	w.snapshot = next
	return next, b.delta
}

// gave is what a source object gave so far.
func (w *Writer) gave(k source.Key) []model.Object {
	if k.Kind != kinds.Pod {
		return w.given[k]
	}
	if pod := w.snapshot.Workload(k.Namespace, k.Name); pod != nil {
		return []model.Object{pod}
	}
	return nil
}

// LatestUpdates keeps one update of each object: the last one, in the place of the first, observed when the first was.
type LatestUpdates struct {
	at      map[source.Key]int
	updates []Update
}

// NewLatestUpdates has room for so many objects.
func NewLatestUpdates(size int) LatestUpdates {
	return LatestUpdates{at: make(map[source.Key]int, size), updates: make([]Update, 0, size)}
}

// All are the updates, in the order in which their objects came first.
func (l *LatestUpdates) All() []Update { return l.updates }

// Add takes further updates.
func (l *LatestUpdates) Add(updates []Update) {
	for _, u := range updates {
		i, known := l.at[u.Key]
		if !known {
			l.at[u.Key] = len(l.updates)
			l.updates = append(l.updates, u)
			continue
		}
		u.Observed = l.updates[i].Observed
		l.updates[i] = u
	}
}

func lastOfEach(updates []Update) []Update {
	if len(updates) == 1 {
		return updates
	}
	last := NewLatestUpdates(len(updates))
	last.Add(updates)
	return last.updates
}

// remember keeps what an object gave, with the pointers that are in the snapshot.
func (w *Writer) remember(k source.Key, gave []model.Object) {
	switch {
	case k.Kind == kinds.Pod:
	case len(gave) == 0:
		delete(w.given, k)
	default:
		w.given[k] = gave
	}
}

// identity tells apart the model objects that one source object gives: hosts of a ServiceEntry, and the VirtualServices that stand
// for an Ingress beside its one Gateway.
func identity(o model.Object) string {
	switch o := o.(type) {
	case *model.Service:
		return string(o.Host)
	case *model.VirtualService:
		if o.Owner != "" {
			return "routes " + o.Name
		}
	}
	return ""
}

func find(objects []model.Object, id string) model.Object {
	for _, o := range objects {
		if identity(o) == id {
			return o
		}
	}
	return nil
}
