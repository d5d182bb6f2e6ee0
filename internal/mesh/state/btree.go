package state

import (
	"iter"
	"slices"
	"sync/atomic"
)

// btree is a persistent sorted set, a B+ tree. Indexes are made of it, and so is the set of
// workloads. The order is that of the values, so a value costs one pointer and its share of a node;
// keys are not stored. Decision 030 compares it with published libraries.
//
// A search takes a function that says where a value stands: before the place looked for (negative),
// at it (0), behind it.
type btree[T any] struct {
	root    *btreeNode[T]
	size    int
	order   func(a, b *T) int
	lookups *atomic.Uint64 // nil unless a test counts what is looked at
	owner   *txn           // may change the tree in place
}

// txn owns the nodes that one batch makes. A batch changes its own nodes in place and copies all
// others. When it ends, it drops its txn, so nobody can change these nodes any more.
type txn struct{ _ byte }

// btreeNode is a node of a B+ tree. It never changes once its owner has ended.
type btreeNode[T any] struct {
	owner    *txn
	lowest   *T
	values   []*T            // of a leaf, in order
	children []*btreeNode[T] // of any other
}

// btreeWidth is how many values or children a node has at most; neighbours that have half as many
// together are merged.
const btreeWidth = 32

func newBTree[T any](lookups *atomic.Uint64, order func(a, b *T) int) *btree[T] {
	return &btree[T]{order: order, lookups: lookups}
}

// looked counts an entry that is looked at, for tests.
func (r *btree[T]) looked() {
	if r.lookups != nil {
		r.lookups.Add(1)
	}
}

// get finds a value; nil if there is none.
func (r *btree[T]) get(at func(*T) int) *T {
	r.looked()
	if leaf, i, found := r.place(at); found {
		return leaf.values[i]
	}
	return nil
}

// place is where a value is, or belongs: its leaf, nil if there is none, and the place in that.
func (r *btree[T]) place(at func(*T) int) (leaf *btreeNode[T], i int, found bool) {
	n := r.root
	if n == nil {
		return nil, 0, false
	}
	for n.children != nil {
		n = n.children[n.child(at)]
	}
	i, found = n.search(at)
	return n, i, found
}

// around are the values next to a place in its leaf, of which one may be at it; nil where the leaf
// ends.
func (r *btree[T]) around(at func(*T) int) (before, after *T) {
	leaf, i, _ := r.place(at)
	if leaf == nil {
		return nil, nil
	}
	if i > 0 {
		before = leaf.values[i-1]
	}
	if i < len(leaf.values) {
		after = leaf.values[i]
	}
	return before, after
}

// search is the place of a value in a leaf, or where it belongs.
func (n *btreeNode[T]) search(at func(*T) int) (i int, found bool) {
	low, high := 0, len(n.values)
	for low < high {
		mid := (low + high) / 2
		switch where := at(n.values[mid]); {
		case where == 0:
			return mid, true
		case where < 0:
			low = mid + 1
		default:
			high = mid
		}
	}
	return low, false
}

// child is the one of an inner node where a value belongs: the last that does not begin after it.
func (n *btreeNode[T]) child(at func(*T) int) int {
	low, high := 1, len(n.children)
	for low < high {
		if mid := (low + high) / 2; at(n.children[mid].lowest) > 0 {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low - 1
}

// from yields the values that do not come before a place, in order, for as long as they are wanted.
func (r *btree[T]) from(at func(*T) int, wanted func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		r.looked()
		if r.root == nil {
			return
		}
		r.root.walk(at, func(v *T) bool {
			if !wanted(v) {
				return false
			}
			r.looked()
			return yield(v)
		})
	}
}

// walk yields the values that do not come before a place; all if at is nil.
func (n *btreeNode[T]) walk(at func(*T) int, yield func(*T) bool) bool {
	first := 0
	if n.children == nil {
		if at != nil {
			first, _ = n.search(at)
		}
		for _, v := range n.values[first:] {
			if !yield(v) {
				return false
			}
		}
		return true
	}
	if at != nil {
		first = n.child(at)
	}
	for _, c := range n.children[first:] {
		if !c.walk(at, yield) {
			return false
		}
		at = nil // the others begin after it
	}
	return true
}

// with is the tree with a value, in the place of the one that is equal to it in the order.
func (r *btree[T]) with(tx *txn, v *T) *btree[T] {
	next := r.ownedBy(tx)
	next.put(v)
	return next
}

// without is the tree without a value; the tree itself if that is not there.
func (r *btree[T]) without(tx *txn, at func(*T) int) *btree[T] {
	if r.root == nil {
		return r
	}
	next := r.ownedBy(tx)
	next.drop(at)
	return next
}

// ownedBy returns the tree itself if the txn owns it, else a copy that it owns.
func (r *btree[T]) ownedBy(tx *txn) *btree[T] {
	if r.owner == tx {
		return r
	}
	next := *r
	next.owner = tx
	return &next
}

// own is a node that may be changed in place.
func (r *btree[T]) own(n *btreeNode[T]) *btreeNode[T] {
	if n.owner == r.owner {
		return n
	}
	return &btreeNode[T]{
		owner: r.owner, lowest: n.lowest, values: slices.Clone(n.values), children: slices.Clone(n.children),
	}
}

// put changes a tree in place: only the owner may call it.
func (r *btree[T]) put(v *T) {
	if r.root == nil {
		r.root, r.size = r.leaf([]*T{v}), 1
		return
	}
	one, more := r.insert(r.root, v)
	if more != nil {
		one = r.inner([]*btreeNode[T]{one, more})
	}
	r.root = one
}

// insert gives the node with the value, and a second one if they are two now.
func (r *btree[T]) insert(n *btreeNode[T], v *T) (one, more *btreeNode[T]) {
	at := func(o *T) int { return r.order(o, v) }
	if n.children != nil {
		return r.insertBelow(n, n.child(at), v)
	}
	i, found := n.search(at)
	if found {
		n = r.own(n)
		n.values[i] = v
		n.lowest = n.values[0]
		return n, nil
	}
	r.size++
	values := inserted(n.values, n.owner == r.owner, i, v)
	if split := splitAt(len(values), i); split > 0 {
		return r.leaf(slices.Clone(values[:split])), r.leaf(slices.Clone(values[split:]))
	}
	if n.owner != r.owner {
		return r.leaf(values), nil
	}
	n.values, n.lowest = values, values[0]
	return n, nil
}

// insertBelow is insert for an inner node, in the child of a place.
func (r *btree[T]) insertBelow(n *btreeNode[T], i int, v *T) (one, more *btreeNode[T]) {
	below, beside := r.insert(n.children[i], v)
	n = r.own(n)
	n.children[i] = below
	if beside != nil {
		n.children = inserted(n.children, true, i+1, beside)
		if split := splitAt(len(n.children), i+1); split > 0 {
			return r.inner(slices.Clone(n.children[:split])), r.inner(slices.Clone(n.children[split:]))
		}
	}
	n.lowest = n.children[0].lowest
	return n, nil
}

// splitAt is where a node with so many entries is split, 0 if it is not. One that grows at its end
// stays full, as when a list is loaded in order.
func splitAt(entries, last int) int {
	switch {
	case entries <= btreeWidth:
		return 0
	case last == entries-1:
		return entries - 1
	}
	return entries / 2
}

// drop changes a tree in place, as put does.
func (r *btree[T]) drop(at func(*T) int) {
	r.root = r.remove(r.root, at)
	for r.root != nil && len(r.root.children) == 1 {
		r.root = r.root.children[0]
	}
}

// remove gives the node without the value, nil if it is empty then.
func (r *btree[T]) remove(n *btreeNode[T], at func(*T) int) *btreeNode[T] {
	if n.children != nil {
		return r.removeBelow(n, n.child(at), at)
	}
	i, found := n.search(at)
	if !found {
		return n
	}
	r.size--
	if len(n.values) == 1 {
		return nil
	}
	n = r.own(n)
	n.values = slices.Delete(n.values, i, i+1)
	n.lowest = n.values[0]
	return n
}

// removeBelow is remove for an inner node, in the child of a place.
func (r *btree[T]) removeBelow(n *btreeNode[T], i int, at func(*T) int) *btreeNode[T] {
	below := r.remove(n.children[i], at)
	if below == n.children[i] && n.owner != r.owner {
		return n // it was not there
	}
	n = r.own(n)
	n.children[i] = below
	switch {
	case below == nil:
		n.children = slices.Delete(n.children, i, i+1)
	case i > 0 && n.children[i-1].entries()+below.entries() <= btreeWidth/2:
		n.children[i-1] = r.merged(n.children[i-1], below)
		n.children = slices.Delete(n.children, i, i+1)
	}
	if len(n.children) == 0 {
		return nil
	}
	n.lowest = n.children[0].lowest
	return n
}

func (n *btreeNode[T]) entries() int { return len(n.values) + len(n.children) }

// merged is one node for two neighbours, which stand equally high.
func (r *btree[T]) merged(a, b *btreeNode[T]) *btreeNode[T] {
	if a.children == nil {
		return r.leaf(slices.Concat(a.values, b.values))
	}
	return r.inner(slices.Concat(a.children, b.children))
}

func (r *btree[T]) leaf(values []*T) *btreeNode[T] {
	return &btreeNode[T]{owner: r.owner, lowest: values[0], values: values}
}

func (r *btree[T]) inner(children []*btreeNode[T]) *btreeNode[T] {
	return &btreeNode[T]{owner: r.owner, lowest: children[0].lowest, children: children}
}

// inserted is a list with one more entry: the list itself, if it is owned, or else a copy with room
// for no other.
func inserted[E any](list []E, owned bool, i int, e E) []E {
	if owned {
		return slices.Insert(list, i, e)
	}
	out := make([]E, 0, len(list)+1)
	out = append(out, list[:i]...)
	out = append(out, e)
	return append(out, list[i:]...)
}
