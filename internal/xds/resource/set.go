package resource

import (
	"iter"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Set is an immutable set of resources with distinct names: a 16-way trie over a hash of the name.
// Its shape depends on its content alone, whatever the order of edits, and nodes are hash-consed in
// a Store: equal content means an equal root, sets share the subtrees they agree on, and the
// difference of any two sets costs the difference.
//
//	root ── bitmap of nibbles ──► branch ──► leaf(Resource)
//
// A leaf sits at the shallowest depth at which it is alone, and a branch has two kids or more: what
// all below it have in common takes no node.
type Set struct {
	root *node // nil when empty
}

type node struct {
	version Version
	totals
	leaf   *Resource
	depth  uint8 // of the nibble by which the kids differ
	bitmap uint16
	kids   []*node
	chunk  atomic.Pointer[chunk] // see chunk.go
}

// Empty is the set without resources.
func Empty() *Set { return emptySet }

var emptySet = &Set{}

// Root is the version of the whole set; the empty set's is zero.
func (s *Set) Root() Version {
	if s.root == nil {
		return Version{}
	}
	return s.root.version
}

// Identity is the content of a Set, as a key of maps: sets of one Store have the same Identity if
// their content is equal. It is as small as a pointer, where a Version takes 12 bytes.
type Identity struct{ root *node }

// Identity is the set's content as a key.
func (s *Set) Identity() Identity { return Identity{s.root} }

// Equal tells whether two sets hold the same resources at the same versions.
func (s *Set) Equal(o *Set) bool { return s == o || s.Root() == o.Root() }

// Len is the number of resources.
func (s *Set) Len() int { return s.total().count }

// Size is the sum of the bodies' lengths in bytes.
func (s *Set) Size() int { return s.total().size }

func (s *Set) total() totals {
	if s.root == nil {
		return totals{}
	}
	return s.root.totals
}

// Get finds a resource by name, nil when there is none.
func (s *Set) Get(name string) *Resource { return s.at(keyOf(name)) }

// Namesake finds the resource with the name of another one, nil when there is none. It costs less
// than Get, which has to hash the name.
func (s *Set) Namesake(of *Resource) *Resource { return s.at(of.key) }

func (s *Set) at(key setKey) *Resource {
	n := s.root
	for n != nil && n.leaf == nil {
		n = n.kid(nibble(key, int(n.depth)))
	}
	if n != nil && n.leaf.key == key {
		return n.leaf
	}
	return nil
}

// All yields the resources in the order of the trie, which is the same in every process.
func (s *Set) All() iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) { s.root.each(yield) }
}

// Names are the sorted names of all resources.
func (s *Set) Names() []string {
	names := make([]string, 0, s.Len())
	for r := range s.All() {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}

// Diff calls f for each name at which the sets disagree: old is nil for an addition, new is nil for
// a removal. It costs the difference, not the size of the sets.
func Diff(from, to *Set, f func(old, new *Resource)) { diffNodes(from.root, to.root, 0, f) }

func diffNodes(a, b *node, depth int, f func(old, new *Resource)) {
	switch {
	case a == b || (a != nil && b != nil && a.version == b.version):
	case a == nil:
		b.each(func(r *Resource) bool { f(nil, r); return true })
	case b == nil:
		a.each(func(r *Resource) bool { f(r, nil); return true })
	case a.leaf != nil && b.leaf != nil:
		if a.leaf.key == b.leaf.key {
			f(a.leaf, b.leaf)
			return
		}
		f(a.leaf, nil)
		f(nil, b.leaf)
	default:
		for i := range byte(16) {
			diffNodes(a.under(i, depth), b.under(i, depth), depth+1, f)
		}
	}
}

// under is the subtree of a nibble; what branches deeper, or is a leaf, counts as a branch with
// only itself below.
func (n *node) under(i byte, depth int) *node {
	if n.leaf == nil && int(n.depth) == depth {
		return n.kid(i)
	}
	if nibble(n.first().key, depth) == i {
		return n
	}
	return nil
}

// first is the first resource below.
func (n *node) first() *Resource {
	for n.leaf == nil {
		n = n.kids[0]
	}
	return n.leaf
}

func (n *node) kid(i byte) *node {
	if n.bitmap&(1<<i) == 0 {
		return nil
	}
	return n.kids[bits.OnesCount16(n.bitmap&(1<<i-1))]
}

func (n *node) each(yield func(*Resource) bool) bool {
	if n == nil {
		return true
	}
	if n.leaf != nil {
		return yield(n.leaf)
	}
	for _, k := range n.kids {
		if !k.each(yield) {
			return false
		}
	}
	return true
}

func nibble(k setKey, depth int) byte { return nibbleAt(k[:], depth) }

func nibbleAt(k []byte, depth int) byte {
	b := k[depth/2]
	if depth%2 == 0 {
		return b >> 4
	}
	return b & 0xf
}
