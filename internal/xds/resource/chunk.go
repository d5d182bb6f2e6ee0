package resource

import "sync"

// A client that has nothing of a large cluster gets all members of its collections, which are as
// many as there are endpoints. In a mesh in which endpoints change while proxies connect, every
// connection would encode them anew. So members are made and encoded by chunks. A chunk is a
// subtree of the set of endpoints. The next generation keeps all chunks but those in which
// something changed, and all proxies that connect share them. A chunk lives as long as its node.

// maxChunkMembers is how many members a chunk has at most. A response then has few parts, and a
// change replaces few members.
const maxChunkMembers = 64

// chunk is a part of a collection: the members of one subtree of the set of endpoints, and their
// encoding.
type chunk struct {
	collection string
	members    []*Resource
	encoded    sync.Once
	bytes      []byte
}

// chunks appends the chunks of a collection whose endpoints are the set's.
func (s *Set) chunks(of string, list []*chunk) []*chunk {
	if s.root == nil {
		return list
	}
	return s.root.chunks(of, list)
}

func (n *node) chunks(of string, list []*chunk) []*chunk {
	if n.count <= maxChunkMembers {
		return append(list, n.chunkOf(of))
	}
	for _, kid := range n.kids {
		list = kid.chunks(of, list)
	}
	return list
}

// chunkOf returns the node's chunk of a collection. The node keeps the first one it makes.
// Endpoints that belong to several clusters are rare, and are encoded each time for the other
// clusters.
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

// allMembers returns the change that adds all members of an assignment.
func allMembers(r *Resource) *Change {
	c := &Change{Type: LbEndpoint, members: r.Collections().size}
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

// Chunks returns the encoding of the upserts in parts. Each part is encoded once and shared with
// other changes. It returns nil for a change without such parts. All callers must pass the same
// encoder.
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
