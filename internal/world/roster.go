package world

import (
	"iter"
	"slices"
	"sync/atomic"
)

// roster is a persistent sorted set: that of Pods, of which there are most, and what indexes are made of. Its order comes from the
// values, so that one costs a pointer and its share of a node.
//
// What is looked for is a function that tells where a value stands: before it (negative), at it (0) or after it.
type roster[T any] struct {
	root    *rosterNode[T]
	size    int
	order   func(a, b *T) int
	lookups *atomic.Uint64
	owner   *byte // of the nodes that the edit which made the roster may change in place
}

// rosterNode is a node of a B+ tree. It never changes once its owner is committed.
type rosterNode[T any] struct {
	owner    *byte // of the edit that made it
	first    *T
	values   []*T             // of a leaf, in order
	children []*rosterNode[T] // of any other
}

// rosterWidth is how many values or children a node has at most; neighbours that have half as many together are merged.
const rosterWidth = 32

func newRoster[T any](lookups *atomic.Uint64, order func(a, b *T) int) *roster[T] {
	return &roster[T]{order: order, lookups: lookups}
}

// get finds a value; nil if there is none.
func (r *roster[T]) get(at func(*T) int) *T {
	r.lookups.Add(1)
	if leaf, i, found := r.place(at); found {
		return leaf.values[i]
	}
	return nil
}

// place is where a value is, or belongs: its leaf, nil if there is none, and the place in that.
func (r *roster[T]) place(at func(*T) int) (leaf *rosterNode[T], i int, found bool) {
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

// around are the values next to a place in its leaf, of which one may be at it; nil where the leaf ends.
func (r *roster[T]) around(at func(*T) int) (before, after *T) {
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
func (n *rosterNode[T]) search(at func(*T) int) (i int, found bool) {
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
func (n *rosterNode[T]) child(at func(*T) int) int {
	low, high := 1, len(n.children)
	for low < high {
		if mid := (low + high) / 2; at(n.children[mid].first) > 0 {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low - 1
}

// from yields the values that do not come before a place, in order, for as long as they are wanted.
func (r *roster[T]) from(at func(*T) int, wanted func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		r.lookups.Add(1)
		if r.root == nil {
			return
		}
		r.root.walk(at, func(v *T) bool {
			if !wanted(v) {
				return false
			}
			r.lookups.Add(1)
			return yield(v)
		})
	}
}

// walk yields the values that do not come before a place; all if at is nil.
func (n *rosterNode[T]) walk(at func(*T) int, yield func(*T) bool) bool {
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

// rosterEdit is a roster while a batch is applied. A batch may edit each of many, and edits few: so it makes nothing until there is
// something to edit.
type rosterEdit[T any] struct {
	now   *roster[T]
	begun bool // now is the edit's own
}

func (r *roster[T]) edit() rosterEdit[T] { return rosterEdit[T]{now: r} }

// commit ends a step; the edit may go on from there.
func (e *rosterEdit[T]) commit() *roster[T] {
	e.begun = false
	return e.now
}

// begin makes the edit the owner of the nodes that it makes from here on, until it is committed: they are changed in place.
func (e *rosterEdit[T]) begin() *roster[T] {
	if !e.begun {
		next := *e.now
		next.owner = new(byte)
		e.now, e.begun = &next, true
	}
	return e.now
}

// put sets a value, in the place of the one that is equal to it in the order.
func (e *rosterEdit[T]) put(v *T) { e.begin().put(v) }

// drop removes a value, if it is there.
func (e *rosterEdit[T]) drop(at func(*T) int) {
	if e.now.root != nil {
		e.begin().drop(at)
	}
}

// own is a node that may be changed in place.
func (r *roster[T]) own(n *rosterNode[T]) *rosterNode[T] {
	if n.owner == r.owner {
		return n
	}
	return &rosterNode[T]{owner: r.owner, first: n.first, values: slices.Clone(n.values), children: slices.Clone(n.children)}
}

// put is for a roster that an edit has begun: nobody else may have it.
func (r *roster[T]) put(v *T) {
	if r.root == nil {
		r.root, r.size = r.leaf([]*T{v}), 1
		return
	}
	one, more := r.insert(r.root, v)
	if more != nil {
		one = r.inner([]*rosterNode[T]{one, more})
	}
	r.root = one
}

// insert gives the node with the value, and a second one if they are two now.
func (r *roster[T]) insert(n *rosterNode[T], v *T) (one, more *rosterNode[T]) {
	at := func(o *T) int { return r.order(o, v) }
	if n.children != nil {
		return r.insertBelow(n, n.child(at), v)
	}
	i, found := n.search(at)
	if found {
		n = r.own(n)
		n.values[i] = v
		n.first = n.values[0]
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
	n.values, n.first = values, values[0]
	return n, nil
}

// insertBelow is insert for an inner node, in the child of a place.
func (r *roster[T]) insertBelow(n *rosterNode[T], i int, v *T) (one, more *rosterNode[T]) {
	below, beside := r.insert(n.children[i], v)
	n = r.own(n)
	n.children[i] = below
	if beside != nil {
		n.children = inserted(n.children, true, i+1, beside)
		if split := splitAt(len(n.children), i+1); split > 0 {
			return r.inner(slices.Clone(n.children[:split])), r.inner(slices.Clone(n.children[split:]))
		}
	}
	n.first = n.children[0].first
	return n, nil
}

// splitAt is where a node with so many entries is split, 0 if it is not. One that grows at its end stays full, as when a list is
// loaded in order.
func splitAt(entries, last int) int {
	switch {
	case entries <= rosterWidth:
		return 0
	case last == entries-1:
		return entries - 1
	}
	return entries / 2
}

// drop is for a roster that an edit has begun, as put is.
func (r *roster[T]) drop(at func(*T) int) {
	r.root = r.remove(r.root, at)
	for r.root != nil && len(r.root.children) == 1 {
		r.root = r.root.children[0]
	}
}

// remove gives the node without the value, nil if it is empty then.
func (r *roster[T]) remove(n *rosterNode[T], at func(*T) int) *rosterNode[T] {
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
	n.first = n.values[0]
	return n
}

// removeBelow is remove for an inner node, in the child of a place.
func (r *roster[T]) removeBelow(n *rosterNode[T], i int, at func(*T) int) *rosterNode[T] {
	below := r.remove(n.children[i], at)
	if below == n.children[i] && n.owner != r.owner {
		return n // it was not there
	}
	n = r.own(n)
	n.children[i] = below
	switch {
	case below == nil:
		n.children = slices.Delete(n.children, i, i+1)
	case i > 0 && n.children[i-1].entries()+below.entries() <= rosterWidth/2:
		n.children[i-1] = r.merged(n.children[i-1], below)
		n.children = slices.Delete(n.children, i, i+1)
	}
	if len(n.children) == 0 {
		return nil
	}
	n.first = n.children[0].first
	return n
}

func (n *rosterNode[T]) entries() int { return len(n.values) + len(n.children) }

// merged is one node for two neighbours, which stand equally high.
func (r *roster[T]) merged(a, b *rosterNode[T]) *rosterNode[T] {
	if a.children == nil {
		return r.leaf(slices.Concat(a.values, b.values))
	}
	return r.inner(slices.Concat(a.children, b.children))
}

func (r *roster[T]) leaf(values []*T) *rosterNode[T] {
	return &rosterNode[T]{owner: r.owner, first: values[0], values: values}
}

func (r *roster[T]) inner(children []*rosterNode[T]) *rosterNode[T] {
	return &rosterNode[T]{owner: r.owner, first: children[0].first, children: children}
}

// inserted is a list with one more entry: the list itself, if it is owned, or else a copy with room for no other.
func inserted[E any](list []E, owned bool, i int, e E) []E {
	if owned {
		return slices.Insert(list, i, e)
	}
	out := make([]E, 0, len(list)+1)
	out = append(out, list[:i]...)
	out = append(out, e)
	return append(out, list[i:]...)
}
