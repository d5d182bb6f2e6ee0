package state

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/forkmap"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Update is the new state of one source object: its model objects, none if it is gone or has none.
type Update struct {
	Key      source.Key
	Objects  []model.Object
	Observed time.Time
}

// Writer takes the mesh from generation to generation. One goroutine at a time uses it and its
// forks.
type Writer struct {
	snapshot *Snapshot
	// objects are the model objects of each source object; those of Pods are in the snapshot under
	// its name.
	objects *forkmap.Map[source.Key, []model.Object]
	// entries are the hosts that several ServiceEntries of a namespace claim.
	entries     *forkmap.Map[entryHost, entryGroup]
	attachments *attachments
	delegations *delegations
}

// NewWriter starts with an empty snapshot at generation 0.
func NewWriter() *Writer { return newWriter(nil) }

// NewCountingWriter is NewWriter for tests: Snapshot.Lookups counts what is looked at. That no
// question costs more in a larger mesh is a promise, and tests hold the snapshots to it.
func NewCountingWriter() *Writer { return newWriter(&atomic.Uint64{}) }

// AllocateFrom has addresses taken from another range than the default one. It is called before the
// Writer is used.
func (w *Writer) AllocateFrom(r AutoRange) { w.snapshot.auto.from = r }

// BeginWith sets the mesh configuration that holds where no object says one. It is called before
// the Writer is used.
func (w *Writer) BeginWith(mesh model.MeshConfig) {
	w.snapshot.Mesh, w.snapshot.defaults = &mesh, &mesh
}

func newWriter(lookups *atomic.Uint64) *Writer {
	attachments := newAttachments()
	return &Writer{
		snapshot: emptySnapshot(lookups), objects: forkmap.New[source.Key, []model.Object](),
		entries: forkmap.New[entryHost, entryGroup](), attachments: attachments,
		delegations: &delegations{attachments.canonical},
	}
}

// Fork returns a Writer that goes on from the present generation on its own: neither sees what the
// other applies. Applying a batch costs as much as in the original. A fork that nobody uses any
// more costs nothing.
func (w *Writer) Fork() *Writer {
	return &Writer{
		snapshot: w.snapshot, objects: w.objects.Fork(), entries: w.entries.Fork(), attachments: w.attachments.fork(),
		delegations: w.delegations,
	}
}

// Snapshot is the present generation.
func (w *Writer) Snapshot() *Snapshot { return w.snapshot }

// Apply applies a batch of updates as one generation. The last of several updates of one object
// counts. When nothing changes, it returns the same snapshot and an empty Delta.
func (w *Writer) Apply(updates []Update) (*Snapshot, *Delta) {
	b := newBatch(w.snapshot)
	for _, u := range lastOfEach(updates) {
		kept, changed := b.replace(w.objectsOf(u.Key), u.Objects)
		if changed {
			b.delta.Changed = append(b.delta.Changed, u.Key)
			if b.delta.Observed.IsZero() || u.Observed.Before(b.delta.Observed) {
				b.delta.Observed = u.Observed
			}
		}
		w.remember(u.Key, kept)
	}
	b.swapEntries(w.entries)
	w.delegations.step(b)
	w.attachments.step(b)
	b.joinEndpoints()
	next := b.finish()
	w.snapshot = next
	return next, b.delta
}

// Objects returns what a source object has come to; nil for nothing.
func (w *Writer) Objects(k source.Key) []model.Object { return w.objectsOf(k) }

// objectsOf returns the present model objects of a source object.
func (w *Writer) objectsOf(k source.Key) []model.Object {
	if k.Kind != kinds.Pod {
		return w.objects.Get(k)
	}
	if pod := w.snapshot.Workload(k.Namespace, k.Name); pod != nil {
		return []model.Object{pod}
	}
	return nil
}

// LatestUpdates keeps one update of each object: the last one, in the place of the first, observed
// when the first was.
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

// remember keeps the model objects of a source object, with the pointers that are in the snapshot.
func (w *Writer) remember(k source.Key, gave []model.Object) {
	switch {
	case k.Kind == kinds.Pod:
	case len(gave) == 0:
		w.objects.Drop(k)
	default:
		w.objects.Put(k, gave)
	}
}

// identity tells the model objects of one source object apart: the hosts of a ServiceEntry, the
// VirtualServices beside the one Gateway of an Ingress, sets of keys, and what objects of the
// Gateway API come to.
func identity(o model.Object) string {
	switch o := o.(type) {
	case *model.Service:
		return string(o.Host)
	case *model.VirtualService:
		if o.Owner != "" {
			return "routes " + o.Name
		}
	case *model.KeySet:
		return o.URI
	case *model.Gateway:
		if o.Kind == kinds.KubernetesGateway {
			return "listener " + o.Name
		}
	case *model.GatewayAPIStatus:
		return "status"
	case *model.ServedGateway:
		return "served"
	}
	return ""
}

// objectIndex has the objects of a long list by their identity. It is nil for a short one.
type objectIndex map[string]model.Object

// indexOf returns the index of a list. A Gateway may have come to thousands of objects.
func indexOf(objects []model.Object) objectIndex {
	const few = 16
	if len(objects) <= few {
		return nil
	}
	index := make(objectIndex, len(objects))
	for _, o := range slices.Backward(objects) { // the first one counts
		index[identity(o)] = o
	}
	return index
}

// find returns the first object of the list with an identity, nil if there is none.
func (x objectIndex) find(objects []model.Object, id string) model.Object {
	if x != nil {
		return x[id]
	}
	for _, o := range objects {
		if identity(o) == id {
			return o
		}
	}
	return nil
}
