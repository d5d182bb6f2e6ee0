package resource

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"
)

// Store hash-conses the nodes of Sets, so that sets share their common content. It holds nodes
// weakly: a node that no set uses is collected. It is safe for concurrent use, though in practice
// the pipeline's writer is the only user.
type Store struct {
	mu          sync.Mutex
	work        *storeCounts                   // nil unless tests count
	nodes       map[Version]weak.Pointer[node] // branches
	resources   map[content]weak.Pointer[Resource]
	spareCaches []batchCache // of batches that are done
}

// StoreWork counts what a Store did since CountWork.
type StoreWork struct {
	// Edits that Apply was given, and Nodes that were not there before.
	Edits, Nodes uint64
}

type storeCounts struct{ edits, nodes atomic.Uint64 }

// CountWork lets the Store count what it does from now on. It is for tests, and is called before
// the Store is used by several goroutines.
func (st *Store) CountWork() { st.work = &storeCounts{} }

// Work returns the counts so far, zeros without CountWork.
func (st *Store) Work() StoreWork {
	if st.work == nil {
		return StoreWork{}
	}
	return StoreWork{Edits: st.work.edits.Load(), Nodes: st.work.nodes.Load()}
}

func (c *storeCounts) edited(n int) {
	if c != nil {
		c.edits.Add(uint64(n))
	}
}

func (c *storeCounts) created() {
	if c != nil {
		c.nodes.Add(1)
	}
}

// content identifies a resource in a Store.
type content struct {
	name         string
	version      Version
	placeholders bool
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{nodes: map[Version]weak.Pointer[node]{}, resources: map[content]weak.Pointer[Resource]{}}
}

// Canonical returns the one resource with this name and content, so that equal bytes are held once.
func (st *Store) Canonical(r *Resource) *Resource {
	key := content{name: r.name, version: r.version, placeholders: r.placeholders}
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

// Edit is one change of a set. A nil Resource removes the name.
type Edit struct {
	Name     string
	Resource *Resource
}

// Build returns a set of the given resources. Of two resources with one name the later one counts.
func (st *Store) Build(resources ...*Resource) *Set {
	edits := make([]Edit, len(resources))
	for i, r := range resources {
		edits[i] = Edit{Name: r.name, Resource: r}
	}
	return st.Apply(emptySet, edits)
}

// Apply returns the set with the edits made. Of two edits of one name the later one counts. It
// costs the number of edits times the depth of the trie. If nothing changes it returns s itself.
func (st *Store) Apply(s *Set, edits []Edit) *Set {
	if len(edits) == 0 {
		return s
	}
	b := Batch{store: st, edits: sortedEdits(edits)}
	return b.ApplyTo(s)
}

// Batch returns edits that are to be applied to many sets. The result for a subtree that sets have
// in common is computed once.
func (st *Store) Batch(edits []Edit) *Batch {
	b := &Batch{store: st, edits: sortedEdits(edits)}
	if len(edits) > 0 {
		b.batchCache = st.newBatchCache()
	}
	return b
}

// Batch is a list of edits for one step, with a cache of the results so far.
type Batch struct {
	store *Store
	edits []keyedEdit
	batchCache
}

// batchCache holds the results of a batch; its maps are nil if they are not kept.
type batchCache struct {
	sets  map[*node]*Set // by the root they were made of
	parts map[editedNode]*node
}

// What a step notes of what it made is mostly as much as the step before did, so the maps of
// batches go from one to the next; but no more of them than a step has as a rule, and none that was
// filled by a step out of the ordinary.
const (
	// A step caches about as much as the step before. So batches reuse each other's maps: at most
	// maxSpareCaches of them, and none that an extraordinary step has filled with more than
	// maxSpareEntries.
	maxSpareCaches  = 16
	maxSpareEntries = 2048
)

// newBatchCache returns an empty cache, if possible a released one.
func (st *Store) newBatchCache() batchCache {
	st.mu.Lock()
	defer st.mu.Unlock()
	last := len(st.spareCaches) - 1
	if last < 0 {
		return batchCache{sets: map[*node]*Set{}, parts: map[editedNode]*node{}}
	}
	m := st.spareCaches[last]
	st.spareCaches[last] = batchCache{}
	st.spareCaches = st.spareCaches[:last]
	return m
}

// Release ends the use of a batch. Later batches reuse its cache.
func (b *Batch) Release() {
	m := b.batchCache
	b.batchCache = batchCache{}
	if m.sets == nil || len(m.sets)+len(m.parts) > maxSpareEntries {
		return
	}
	clear(m.sets)
	clear(m.parts)
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	if len(b.store.spareCaches) < maxSpareCaches {
		b.store.spareCaches = append(b.store.spareCaches, m)
	}
}

// editedNode is a node with the range of edits below it.
type editedNode struct {
	of       *node
	from, to int
}

type keyedEdit struct {
	key      setKey
	resource *Resource
}

// sortedEdits returns the edits in the order of the trie, and of each name only the last.
func sortedEdits(edits []Edit) []keyedEdit {
	list := make([]keyedEdit, len(edits))
	for i, e := range edits {
		list[i].resource = e.Resource
		if e.Resource != nil && e.Resource.name == e.Name {
			list[i].key = e.Resource.key
		} else {
			list[i].key = keyOf(e.Name)
		}
	}
	slices.SortStableFunc(list, func(a, b keyedEdit) int { return bytes.Compare(a.key[:], b.key[:]) })
	return lastOfEach(list)
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

// ApplyTo returns a set with the edits made.
func (b *Batch) ApplyTo(s *Set) *Set {
	if len(b.edits) == 0 {
		return s
	}
	if known := b.sets[s.root]; known != nil {
		return known
	}
	b.store.work.edited(len(b.edits))
	to := s
	if root := b.apply(s.root, 0, len(b.edits), 0); root == nil {
		to = emptySet
	} else if root != s.root {
		to = &Set{root: root}
	}
	if b.sets != nil {
		b.sets[s.root] = to
	}
	return to
}

// apply makes the edits of a range, which are all below n's prefix. It returns the canonical node,
// nil if nothing is left.
func (b *Batch) apply(n *node, from, to, depth int) *node {
	if from == to {
		return n
	}
	key := editedNode{n, from, to}
	if known, ok := b.parts[key]; ok {
		return known
	}
	next := b.make(n, from, to, depth)
	if b.parts != nil {
		b.parts[key] = next
	}
	return next
}

func (b *Batch) make(n *node, from, to, depth int) *node {
	edits := b.edits[from:to]
	if n == nil && len(edits) == 1 {
		return b.store.leaf(edits[0].resource)
	}
	if n != nil && n.leaf != nil && len(edits) == 1 && edits[0].key == n.leaf.key {
		if r := edits[0].resource; r == nil || r.version != n.leaf.version || r.placeholders != n.leaf.placeholders {
			return b.store.leaf(r)
		}
		return n
	}
	var kids [16]*node
	for i := range kids {
		if n != nil {
			kids[i] = n.under(byte(i), depth)
		}
	}
	for from < to {
		i, end := nibble(b.edits[from].key, depth), from+1
		for end < to && nibble(b.edits[end].key, depth) == i {
			end++
		}
		kids[i] = b.apply(kids[i], from, end, depth+1)
		from = end
	}
	return b.store.branch(&kids, n, depth)
}

// leaf returns the one node of a resource. The resource points to it, so that it takes no place in
// the store.
func (st *Store) leaf(r *Resource) *node {
	if r == nil {
		return nil
	}
	r = st.Canonical(r)
	if n := r.node.Load(); n != nil {
		return n
	}
	if r.node.CompareAndSwap(nil, newLeaf(r)) {
		st.work.created()
	}
	return r.node.Load()
}

func newLeaf(r *Resource) *node {
	own := byte(0)
	if r.placeholders {
		own = 1
	}
	content := appendPart(appendPart(make([]byte, 0, 64), []byte("leaf")), r.key[:])
	content = appendPart(appendPart(content, r.version[:]), []byte{own})
	return &node{version: versionOfParts(content), totals: totalsOf(r), leaf: r}
}

// branch returns the canonical node above the kids: nil without a kid, and the kid itself if there
// is one. It returns old if nothing changed, and makes no node that exists already.
func (st *Store) branch(kids *[16]*node, old *node, depth int) *node {
	var bitmap uint16
	var lone *node
	total, same := totals{}, old != nil && old.leaf == nil && int(old.depth) == depth
	for i, k := range kids {
		same = same && old.kid(byte(i)) == k
		if k != nil {
			lone = k
			bitmap |= 1 << i
			total.add(k.totals)
		}
	}
	switch {
	case bits.OnesCount16(bitmap) < 2:
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
		b := &node{
			version: v,
			totals:  total,
			depth:   uint8(depth),
			bitmap:  bitmap,
			kids:    make([]*node, 0, bits.OnesCount16(bitmap)),
		}
		for _, k := range kids {
			if k != nil {
				b.kids = append(b.kids, k)
			}
		}
		return b
	})
}

// intern returns the node of a version, and builds it if there is none.
func (st *Store) intern(v Version, build func() *node) *node {
	st.mu.Lock()
	defer st.mu.Unlock()
	if known := st.nodes[v].Value(); known != nil {
		return known
	}
	n := build()
	st.work.created()
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

// Nodes returns the number of branches and resources that are alive, for tests: it looks at each.
// Entries of collected ones, which a cleanup removes later, do not count.
func (st *Store) Nodes() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return alive(st.nodes) + alive(st.resources)
}

func alive[K comparable, V any](held map[K]weak.Pointer[V]) int {
	n := 0
	for _, p := range held {
		if p.Value() != nil {
			n++
		}
	}
	return n
}
