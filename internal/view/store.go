package view

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"
)

// Store hash-conses the nodes of Sets, so that sets with common content share it. It holds nodes weakly: what no set
// uses is collected. It is safe for concurrent use, though the one writer of the pipeline is its only user in practice.
type Store struct {
	mu        sync.Mutex
	edits     atomic.Uint64
	made      atomic.Uint64
	nodes     map[Version]weak.Pointer[node]
	resources map[content]weak.Pointer[Resource]
}

// StoreWork counts what a Store did since the start.
type StoreWork struct {
	// Edits that Apply was given, and Nodes that were not there before.
	Edits, Nodes uint64
}

// Work is what was done so far.
func (st *Store) Work() StoreWork { return StoreWork{Edits: st.edits.Load(), Nodes: st.made.Load()} }

// content is what makes two resources one.
type content struct {
	name    string
	version Version
	own     bool
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{nodes: map[Version]weak.Pointer[node]{}, resources: map[content]weak.Pointer[Resource]{}}
}

// Canonical returns the one resource of this name and content, so that equal bytes are held once however they came about.
func (st *Store) Canonical(r *Resource) *Resource {
	key := content{name: r.name, version: r.version, own: r.own}
	st.mu.Lock()
	defer st.mu.Unlock()
	if known := st.resources[key].Value(); known != nil {
		return known
	}
	st.resources[key] = weak.Make(r)
	runtime.AddCleanup(r, st.forgetResource, key)
	return r
}

func (st *Store) forgetResource(key content) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.resources[key].Value() == nil {
		delete(st.resources, key)
	}
}

// Edit is one change of a set: Resource nil removes the name.
type Edit struct {
	Name     string
	Resource *Resource
}

// Build makes a set of the resources given; of two with one name the later one counts.
func (st *Store) Build(resources ...*Resource) *Set {
	edits := make([]Edit, len(resources))
	for i, r := range resources {
		edits[i] = Edit{Name: r.name, Resource: r}
	}
	return st.Apply(emptySet, edits)
}

// Apply returns the set with the edits made; of two edits of one name the later one counts. It costs the edits
// times the depth of the trie. A set equal to the old one is returned as the old one.
func (st *Store) Apply(s *Set, edits []Edit) *Set {
	if len(edits) == 0 {
		return s
	}
	st.edits.Add(uint64(len(edits)))
	keyed := make([]keyedEdit, len(edits))
	for i, e := range edits {
		keyed[i] = keyedEdit{key: keyOf(e.Name), resource: e.Resource}
	}
	slices.SortStableFunc(keyed, func(a, b keyedEdit) int { return slices.Compare(a.key[:], b.key[:]) })
	keyed = lastOfEach(keyed)
	root := st.apply(s.root, keyed, 0)
	if root == s.root {
		return s
	}
	if root == nil {
		return emptySet
	}
	return &Set{root: root}
}

type keyedEdit struct {
	key      setKey
	resource *Resource
}

func lastOfEach(edits []keyedEdit) []keyedEdit {
	out := edits[:0]
	for i, e := range edits {
		if i+1 < len(edits) && edits[i+1].key == e.key {
			continue
		}
		out = append(out, e)
	}
	return out
}

// apply makes sorted edits, all under n's prefix, and returns the canonical node, nil when nothing is left.
func (st *Store) apply(n *node, edits []keyedEdit, depth int) *node {
	if len(edits) == 0 {
		return n
	}
	if n == nil && len(edits) == 1 {
		return st.leaf(edits[0].resource)
	}
	if n != nil && n.leaf != nil && len(edits) == 1 && edits[0].key == n.leaf.key {
		if r := edits[0].resource; r == nil || r.version != n.leaf.version || r.own != n.leaf.own {
			return st.leaf(r)
		}
		return n
	}
	var kids [16]*node
	for i := range kids {
		if n != nil {
			kids[i] = n.under(byte(i), depth)
		}
	}
	for len(edits) > 0 {
		i := nibble(edits[0].key, depth)
		end := 1
		for end < len(edits) && nibble(edits[end].key, depth) == i {
			end++
		}
		kids[i] = st.apply(kids[i], edits[:end], depth+1)
		edits = edits[end:]
	}
	return st.branch(&kids, n)
}

func (st *Store) leaf(r *Resource) *node {
	if r == nil {
		return nil
	}
	own := byte(0)
	if r.own {
		own = 1
	}
	content := appendPart(appendPart(make([]byte, 0, 64), []byte("leaf")), r.key[:])
	content = appendPart(appendPart(content, r.version[:]), []byte{own})
	v := versionOfParts(content)
	return st.intern(v, func() *node { return &node{version: v, totals: totalsOf(r), leaf: r} })
}

// branch is the canonical node over the kids: none for no leaf, the leaf itself for one. It keeps old when nothing changed,
// and makes nothing that is there.
func (st *Store) branch(kids *[16]*node, old *node) *node {
	var bitmap uint16
	var lone *node
	total, same := totals{}, old != nil && old.leaf == nil
	for i, k := range kids {
		same = same && old.kid(byte(i)) == k
		if k != nil {
			lone = k
			bitmap |= 1 << i
			total.add(k.totals)
		}
	}
	switch {
	case total.count == 0:
		return nil
	case total.count == 1:
		return lone
	case same:
		return old
	}
	content := binary.LittleEndian.AppendUint16(make([]byte, 0, 2+16*len(Version{})), bitmap)
	for _, k := range kids {
		if k != nil {
			content = append(content, k.version[:]...)
		}
	}
	v := versionOfParts(appendPart(appendPart(make([]byte, 0, 256), []byte("branch")), content))
	return st.intern(v, func() *node {
		b := &node{version: v, totals: total, bitmap: bitmap, kids: make([]*node, 0, bits.OnesCount16(bitmap))}
		for _, k := range kids {
			if k != nil {
				b.kids = append(b.kids, k)
			}
		}
		return b
	})
}

// intern is the node of a version, made if there is none.
func (st *Store) intern(v Version, build func() *node) *node {
	st.mu.Lock()
	defer st.mu.Unlock()
	if known := st.nodes[v].Value(); known != nil {
		return known
	}
	n := build()
	st.made.Add(1)
	st.nodes[v] = weak.Make(n)
	runtime.AddCleanup(n, st.forget, v)
	return n
}

func (st *Store) forget(v Version) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.nodes[v].Value() == nil {
		delete(st.nodes, v)
	}
}

// Nodes is the number of nodes now alive, for tests and metrics.
func (st *Store) Nodes() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.nodes)
}
