package state

import (
	"slices"
	"sync/atomic"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// table holds the model objects of one type: its indexes, by column.
type table[T any] struct {
	by    []index[*T]
	owner *txn // may change the list of indexes in place
}

// column is the place of an index in its table. The type parameter says of which table.
type column[T any] uint8

// keysOf appends the keys under which an object stands in an index. It is a function of the object
// alone.
type keysOf[T any] func(keys [][]byte, o *T) [][]byte

// selector is a selector over workloads, with the object that has it.
type selector struct {
	labels model.Labels
	of     *model.Meta
}

// schema declares a table. All that is done with every table (create, swap, compose deltas) is
// derived from it.
type schema[T any] struct {
	// table and changes are where a Snapshot and a Delta have what there is of the type. Either may
	// be nil.
	table   func(*Snapshot) *table[T]
	changes func(*Delta) *[]Pair[T]
	// indexes are the keys of each index, by column.
	indexes []keysOf[T]
	// selectors appends those over workloads that an object has; nil if the type has none.
	// SelectorsOf finds them.
	selectors func(all []selector, o *T) []selector
	// special does what cannot be said of the object alone, after its indexes are up to date. It
	// returns the object as it is kept. It is nil for most types.
	special func(b *batch, old, now *T) *T
}

// declared is a schema with the pointer type that is the model object.
type declared[T any, P object[T]] struct{ schema[T] }

// object is a model object of a type T.
type object[T any] interface {
	*T
	model.Object
	Key() source.Key
}

func declare[T any, P object[T]](s schema[T]) anyTable { return &declared[T, P]{s} }

// anyTable is a schema, whatever the type.
type anyTable interface {
	// create makes the empty table of a first snapshot.
	create(s *Snapshot, lookups *atomic.Uint64)
	// swap puts an object in the place of another, nil is none. It returns false for objects of
	// another type.
	swap(b *batch, old, now model.Object) bool
	// isEmpty reports whether a delta has no object of the type.
	isEmpty(d *Delta) bool
	// compose sets what differs from before the first delta to after the second one.
	compose(both, first, second *Delta)
	// changedSelectors appends the selectors over workloads of the objects in a delta, as they were
	// and as they are.
	changedSelectors(d *Delta, found []model.Labels) []model.Labels
}

func (t *declared[T, P]) create(s *Snapshot, lookups *atomic.Uint64) {
	if t.table == nil {
		return
	}
	kept := t.table(s)
	for range t.indexes {
		kept.by = append(kept.by, newIndex[*T](lookups))
	}
}

func (t *declared[T, P]) swap(b *batch, old, now model.Object) bool {
	was, _ := old.(P)
	is, _ := now.(P)
	if was == nil && is == nil {
		return false
	}
	o, n := (*T)(was), (*T)(is)
	if t.table != nil {
		t.table(b.next).swap(b, t.indexes, Pair[T]{o, n})
	}
	if t.selectors != nil {
		t.swapSelectors(b, o, n)
	}
	if t.special != nil {
		n = t.special(b, o, n)
	}
	if t.changes != nil {
		list := t.changes(b.delta)
		*list = append(*list, Pair[T]{Old: o, New: n})
	}
	return true
}

// swap puts an object in the place of another in all indexes. A key that both have is set anew and
// never dropped.
func (t *table[T]) swap(b *batch, indexes []keysOf[T], p Pair[T]) {
	if t.owner != b.tx {
		t.by, t.owner = slices.Clone(t.by), b.tx
	}
	for c, keys := range indexes {
		ix := &t.by[c]
		if p.New != nil {
			b.keys = keys(b.keys[:0], p.New)
			for _, k := range b.keys {
				ix.put(b.tx, k, p.New)
			}
		}
		if p.Old != nil {
			b.keys = keys(b.keys[:0], p.Old)
			for _, k := range b.keys {
				if p.New == nil || !has(*ix, k, p.New) {
					ix.drop(b.tx, k)
				}
			}
		}
	}
}

// has reports whether a key leads to this very object.
func has[T any](ix index[*T], key []byte, o *T) bool {
	leaf, i, found := ix.entries.place(at[*T](key))
	return found && leaf.values[i].value == o
}

func (t *declared[T, P]) swapSelectors(b *batch, old, now *T) {
	if old != nil {
		for _, l := range t.selectors(nil, old) {
			b.next.selectors.drop(b.tx, l.key())
		}
	}
	if now != nil {
		for _, l := range t.selectors(nil, now) {
			b.next.selectors.put(b.tx, l.key(), l.labels)
		}
	}
}

func (t *declared[T, P]) isEmpty(d *Delta) bool { return t.changes == nil || len(*t.changes(d)) == 0 }

func (t *declared[T, P]) compose(both, first, second *Delta) {
	if t.changes != nil {
		*t.changes(both) = composePairs[T, P](*t.changes(first), *t.changes(second))
	}
}

func (t *declared[T, P]) changedSelectors(d *Delta, found []model.Labels) []model.Labels {
	if t.selectors == nil {
		return found
	}
	for _, p := range *t.changes(d) {
		var was, is []selector
		if p.Old != nil {
			was = t.selectors(nil, p.Old)
		}
		if p.New != nil {
			is = t.selectors(nil, p.New)
		}
		found = appendMissing(appendMissing(found, was, is), is, was)
	}
	return found
}

// appendMissing adds the labels of selectors that are not among others.
func appendMissing(found []model.Labels, selectors, others []selector) []model.Labels {
	for _, s := range selectors {
		if !slices.ContainsFunc(others, func(o selector) bool { return o.labels == s.labels }) {
			found = append(found, s.labels)
		}
	}
	return found
}

func (s selector) key() []byte {
	return join(s.labels.FirstPair(), s.labels.String(), string(s.of.Kind), s.of.Namespace, s.of.Name)
}

// single makes the keys of an index with one entry for each object.
func single[T any](key func(*T) []byte) keysOf[T] {
	return func(keys [][]byte, o *T) [][]byte { return append(keys, key(o)) }
}

// filtered makes the keys of an index with one entry for each object that matches.
func filtered[T any](meant func(*T) bool, key func(*T) []byte) keysOf[T] {
	return func(keys [][]byte, o *T) [][]byte {
		if !meant(o) {
			return keys
		}
		return append(keys, key(o))
	}
}

// perName makes the keys of an index with one entry for each name of an object. Entries of one name
// are in the total order.
func perName[T any, N ~string](meta func(*T) *model.Meta, names func(*T) []N) keysOf[T] {
	return func(keys [][]byte, o *T) [][]byte {
		for _, name := range names(o) {
			keys = append(keys, ordered(join(string(name)), meta(o), ""))
		}
		return keys
	}
}

// perSelector makes the keys of an index with one entry for each selector of a policy.
func perSelector[T any](of func(*T) (*model.Selection, *model.Meta)) keysOf[T] {
	return func(keys [][]byte, o *T) [][]byte {
		selection, meta := of(o)
		for _, l := range selection.Selectors() {
			keys = append(keys, ordered(join(meta.Namespace, l.String()), meta, ""))
		}
		return keys
	}
}

// selectsAny returns the selectors of a policy but the empty one, which selects all.
func selectsAny[T any](of func(*T) (*model.Selection, *model.Meta)) func([]selector, *T) []selector {
	return func(all []selector, o *T) []selector {
		selection, meta := of(o)
		for _, l := range selection.Selectors() {
			if !l.IsEmpty() {
				all = append(all, selector{l, meta})
			}
		}
		return all
	}
}

// selects returns the one selector of an object, none if it is empty and selects all.
func selects[T any](of func(*T) (model.Labels, *model.Meta)) func([]selector, *T) []selector {
	return func(all []selector, o *T) []selector {
		labels, meta := of(o)
		if labels.IsEmpty() {
			return all
		}
		return append(all, selector{labels, meta})
	}
}
