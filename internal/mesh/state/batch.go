package state

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// batch is one step of the Writer: the next snapshot, which only the batch uses until finish, and
// the delta.
type batch struct {
	from, next *Snapshot
	tx         *txn
	delta      *Delta

	dirtySlices  []Pair[model.EndpointSlice]
	dirtyEntries map[entryHost][]Pair[model.Service] // nil in a batch without ServiceEntries
	attach       changedAttachments
	delegation   changedDelegations
	keys         [][]byte // of the object in hand
}

func newBatch(from *Snapshot) *batch {
	next := *from
	return &batch{from: from, next: &next, tx: new(txn), delta: &Delta{From: from}}
}

// finish publishes the step: the same snapshot when nothing changed.
func (b *batch) finish() *Snapshot {
	b.allocateAddresses()
	switch {
	case !b.delta.IsEmpty():
		b.next.Generation++
	case len(b.dirtySlices) == 0 && b.attach.isEmpty() && b.delegation.isEmpty():
		b.next = b.from
	default: // a slice whose endpoints are all pending, a grant for nobody: remembered, but nothing to see
	}
	b.delta.To = b.next
	return b.next
}

// replace takes out the old model objects of a source object and puts in the new ones. It reports
// whether a difference matters to readers, and returns the objects as the snapshot keeps them: the
// old pointer where the content is equal.
func (b *batch) replace(old, now []model.Object) (kept []model.Object, changed bool) {
	before, after := indexOf(old), indexOf(now)
	for _, o := range old {
		if after.find(now, identity(o)) == nil {
			changed = b.swap(o, nil) || changed
		}
	}
	kept = make([]model.Object, 0, len(now))
	for _, n := range now {
		o := before.find(old, identity(n))
		if o != nil && model.Equal(o, n) {
			kept = append(kept, o)
			continue
		}
		changed = b.swap(o, n) || changed
		kept = append(kept, n)
	}
	return kept, changed
}

// swap reports whether readers depend on such an object.
func (b *batch) swap(old, now model.Object) bool {
	if was, is := entryOf(old), entryOf(now); was != nil || is != nil {
		b.noteEntry(was, is)
		return true
	}
	return b.swapDelegation(old, now) || b.swapTables(old, now)
}

// swapTables is swap for an object as the snapshot has it.
func (b *batch) swapTables(old, now model.Object) bool {
	for _, t := range tables {
		if t.swap(b, old, now) {
			return true
		}
	}
	was, _ := old.(*model.MeshConfig)
	is, _ := now.(*model.MeshConfig)
	if was == nil && is == nil {
		return false
	}
	b.swapMesh(is)
	return true
}
