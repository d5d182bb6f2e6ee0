package resource

import (
	"iter"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Set is an immutable set of resources with distinct names: a 16-way trie over a hash of the name.
// Its shape depends on its content alone, not on the order of edits. A Store hash-conses its nodes:
// equal content means an equal root, sets share the subtrees they agree on, and comparing two sets
// costs their difference.
//
//	root ── bitmap of nibbles ──► branch ──► leaf(Resource)
//
// A leaf sits at the shallowest depth at which it is alone. A branch has at least two kids: a
// prefix that all resources below have in common takes no node.
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

// Empty returns the set without resources.
func Empty() *Set { return emptySet }

var emptySet = &Set{}

// Root returns the version of the whole set; zero for the empty set.
func (s *Set) Root() Version {
	if s.root == nil {
		return Version{}
	}
	return s.root.version
}

// Identity is the content of a Set as a key of maps. Sets of one Store have the same Identity if
// their content is equal. It is as small as a pointer; a Version takes 12 bytes.
type Identity struct{ root *node }

// Identity returns the set's content as a key.
func (s *Set) Identity() Identity { return Identity{s.root} }

// Equal reports whether two sets hold the same resources at the same versions.
func (s *Set) Equal(o *Set) bool { return s == o || s.Root() == o.Root() }

// Len returns the number of resources.
func (s *Set) Len() int { return s.total().count }

// Size returns the sum of the bodies' lengths in bytes.
func (s *Set) Size() int { return s.total().size }

func (s *Set) total() totals {
	if s.root == nil {
		return totals{}
	}
	return s.root.totals
}

// Get returns the resource with a name, nil if there is none.
func (s *Set) Get(name string) *Resource { return s.at(keyOf(name)) }

// Namesake returns the resource that has the same name as another one, nil if there is none. It
// costs less than Get, which hashes the name.
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

// Names returns the sorted names of all resources.
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

// under returns the subtree of a nibble. A leaf, or a node that branches deeper, counts as a branch
// with itself as the only kid.
func (n *node) under(i byte, depth int) *node {
	if n.leaf == nil && int(n.depth) == depth {
		return n.kid(i)
	}
	if nibble(n.first().key, depth) == i {
		return n
	}
	return nil
}

// first returns the first resource below the node.
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
