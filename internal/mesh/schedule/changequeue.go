package schedule

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// changeQueue holds changes that wait to leave as one batch: the latest of each object, so that it
// holds no more of them than there are objects.
type changeQueue struct {
	changes map[source.Key]source.Change
	order   []source.Key
	// oldest is when the first of them came. newest is when the last came, and stays so when they
	// have left.
	oldest, newest time.Time
}

// largeBatch is how many changes a batch may have for its memory to be kept for the next one.
const largeBatch = 1024

func newChangeQueue() changeQueue { return changeQueue{changes: map[source.Key]source.Change{}} }

func (q *changeQueue) empty() bool { return len(q.order) == 0 }

func (q *changeQueue) len() int { return len(q.order) }

func (q *changeQueue) add(c source.Change, now time.Time) {
	if q.empty() {
		q.oldest = now
	}
	if earlier, known := q.changes[c.Key]; known {
		c.ObservedAt = earlier.ObservedAt // the user waits since the first of them
	} else {
		q.order = append(q.order, c.Key)
	}
	q.changes[c.Key] = c
	q.newest = now
}

// take empties it: what it held comes in the order of arrival.
func (q *changeQueue) take() []source.Change {
	batch := make([]source.Change, len(q.order))
	for i, k := range q.order {
		batch[i] = q.changes[k]
	}
	if len(batch) > largeBatch {
		q.changes, q.order = map[source.Key]source.Change{}, nil
	}
	clear(q.changes)
	q.order = q.order[:0]
	return batch
}

// takeNamespace takes out what is of a namespace, in the order of arrival.
func (q *changeQueue) takeNamespace(namespace string) (batch []source.Change) {
	q.order = slices.DeleteFunc(q.order, func(k source.Key) bool {
		if k.Namespace != namespace {
			return false
		}
		batch = append(batch, q.changes[k])
		delete(q.changes, k)
		return true
	})
	return batch
}

// hasRemoval reports whether an object goes away.
func (q *changeQueue) hasRemoval() bool {
	for _, k := range q.order {
		if q.changes[k].Object == nil {
			return true
		}
	}
	return false
}

// hasUpsert reports whether an object is new or changes.
func (q *changeQueue) hasUpsert() bool {
	for _, k := range q.order {
		if q.changes[k].Object != nil {
			return true
		}
	}
	return false
}

// has reports whether an object of a kind waits.
func (q *changeQueue) has(k kinds.Kind) bool {
	return slices.ContainsFunc(q.order, func(key source.Key) bool { return key.Kind == k })
}

// move notes where an object stands now.
func (q *changeQueue) move(p source.Place) { move(q.changes, p) }

func move(changes map[source.Key]source.Change, p source.Place) {
	if c, ok := changes[p.Key]; ok && c.Object != nil {
		c.Origin = p.Origin
		changes[p.Key] = c
	}
}

// due is when nothing has come for the quiet period, or when the oldest has waited for the maximum.
func (q *changeQueue) due(quiet, longest time.Duration) time.Time {
	return earlier(q.newest.Add(quiet), q.oldest.Add(longest))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
