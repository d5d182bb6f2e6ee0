package resource

import "sync"

// Who has nothing of a large cluster gets all members of its collections: as many as there are
// endpoints, to each proxy that comes, in a mesh in which endpoints change while proxies come. So
// members are made and encoded by chunks, which are subtrees of the set of endpoints: those of one
// generation go on in the next, but for the few that something changed in, and all proxies that
// come share them. A chunk lives as long as the node whose it is.

// chunkMembers is how many members a chunk has at most: many enough for a response to have few
// parts, few enough for a change to be small.
const chunkMembers = 64

// chunk is a part of a collection.
type chunk struct {
	collection string
	members    []*Resource
	encoded    sync.Once
	bytes      []byte
}

// chunks appends those of a collection whose endpoints are the set's.
func (s *Set) chunks(of string, list []*chunk) []*chunk {
	if s.root == nil {
		return list
	}
	return s.root.chunks(of, list)
}

func (n *node) chunks(of string, list []*chunk) []*chunk {
	if n.count <= chunkMembers {
		return append(list, n.chunkOf(of))
	}
	for _, kid := range n.kids {
		list = kid.chunks(of, list)
	}
	return list
}

// chunkOf is the node's chunk of a collection. The first is kept: endpoints that are of several
// clusters, which is rare, are encoded for the others each time.
func (n *node) chunkOf(collection string) *chunk {
	if c := n.chunk.Load(); c != nil && c.collection == collection {
		return c
	}
	c := &chunk{collection: collection, members: make([]*Resource, 0, n.count)}
	n.each(func(r *Resource) bool {
		c.members = append(c.members, memberOf(collection, r))
		return true
	})
	if !n.chunk.CompareAndSwap(nil, c) {
		if first := n.chunk.Load(); first.collection == collection {
			return first
		}
	}
	return c
}

// allMembers is the step from nothing to the members of an assignment.
func allMembers(r *Resource) *Change {
	c := &Change{Type: LbEndpoint}
	names := r.Collections().names
	for i, g := range r.assignment.groups {
		c.chunks = g.Members.chunks(names[i], c.chunks)
	}
	c.Upserts = make([]*Resource, 0, r.Collections().size)
	for _, part := range c.chunks {
		c.Upserts = append(c.Upserts, part.members...)
	}
	return c
}

// Chunks returns what encode makes of the upserts, in parts that are made once and shared, also
// with other changes; nil where there are no such parts. It must not be called with different
// encoders.
func (c *Change) Chunks(encode func([]*Resource) []byte) [][]byte {
	if c.chunks == nil {
		return nil
	}
	parts := make([][]byte, len(c.chunks))
	for i, part := range c.chunks {
		part.encoded.Do(func() { part.bytes = encode(part.members) })
		parts[i] = part.bytes
	}
	return parts
}
