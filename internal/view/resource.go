package view

import (
	"crypto/sha256"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// setKey orders resources in a Set: a hash of the name, so that the shape of a Set depends on its content alone.
type setKey [16]byte

func keyOf(name string) setKey {
	sum := sha256.Sum256([]byte(name))
	return setKey(sum[:16])
}

// Resource is one encoded xDS resource: a name, a content version and bytes. It never changes.
//
// Most resources are plain bytes. A list (a ClusterLoadAssignment, a RouteConfiguration) is an assembly: a head and
// Sets of members, each a Resource of its own; its bytes are put together from theirs when first asked for (a repeated
// protobuf field is a concatenation). A resource that depends on the proxy's own addresses holds placeholders in
// their place, see Own.
type Resource struct {
	name    string
	key     setKey
	version Version
	own     bool
	eds     bool // a cluster whose endpoints are pushed
	size    int  // of the body in bytes, known without putting it together

	assemble func() []byte // nil for plain bytes
	once     sync.Once
	body     []byte

	refs   Refs
	table  *table // of a route table
	groups []Group
}

// NewResource makes a resource from the deterministic encoding of its message.
func NewResource(name string, body []byte) *Resource {
	return &Resource{name: name, key: keyOf(name), version: versionOf(body), body: body, size: len(body)}
}

// NewOwnResource makes a resource whose body holds placeholders for the proxy's own addresses.
func NewOwnResource(name string, body []byte) *Resource {
	r := NewResource(name, body)
	r.own = true
	return r
}

// NewReferringResource makes a resource that needs others to do its work.
func NewReferringResource(name string, body []byte, refs Refs) *Resource {
	r := NewResource(name, body)
	r.refs = refs
	return r
}

// VirtualHost fields that the assembly writes: RouteConfiguration.virtual_hosts and VirtualHost.name.
const (
	routeVirtualHosts protowire.Number = 2
	virtualHostName   protowire.Number = 1
)

// NewRouteTable makes a RouteConfiguration from its head (all fields but virtual_hosts, encoded) and its virtual
// hosts: members whose bodies are a VirtualHost without its name, which is the member's name.
func NewRouteTable(name string, head []byte, vhosts *Set) *Resource {
	r := &Resource{name: name, key: keyOf(name), version: versionOf(head, vhosts.Root().bytes()), table: &table{head: head, vhosts: vhosts}}
	r.size = len(head) + vhosts.total().named
	r.assemble = func() []byte {
		b := append(make([]byte, 0, r.size), head...)
		for m := range vhosts.All() {
			b = protowire.AppendTag(b, routeVirtualHosts, protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(sizeOfField(virtualHostName, len(m.name))+m.size))
			b = protowire.AppendTag(b, virtualHostName, protowire.BytesType)
			b = protowire.AppendString(b, m.name)
			b = append(b, m.Body()...)
		}
		return b
	}
	return r
}

// Group is one LocalityLbEndpoints of an assignment: its head (all fields but lb_endpoints, encoded), and its endpoints.
type Group struct {
	Head    []byte
	Members *Set
}

// ClusterLoadAssignment.endpoints and LocalityLbEndpoints.lb_endpoints.
const (
	assignmentEndpoints protowire.Number = 2
	localityLbEndpoints protowire.Number = 2
)

// NewAssignment makes a ClusterLoadAssignment from its head (all fields but endpoints, encoded) and its groups.
func NewAssignment(name string, head []byte, groups []Group) *Resource {
	parts := [][]byte{head}
	size := len(head)
	sizes := make([]int, len(groups))
	for i, g := range groups {
		parts = append(parts, g.Head, g.Members.Root().bytes())
		sizes[i] = len(g.Head) + g.Members.total().bare
		size += sizeOfField(assignmentEndpoints, sizes[i])
	}
	r := &Resource{name: name, key: keyOf(name), version: versionOf(parts...), groups: groups, size: size}
	r.assemble = func() []byte {
		b := append(make([]byte, 0, r.size), head...)
		for i, g := range groups {
			b = protowire.AppendTag(b, assignmentEndpoints, protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(sizes[i]))
			b = append(b, g.Head...)
			for m := range g.Members.All() {
				b = protowire.AppendTag(b, localityLbEndpoints, protowire.BytesType)
				b = protowire.AppendBytes(b, m.Body())
			}
		}
		return b
	}
	return r
}

// totals are sums over the members of a set, kept in its nodes, so that the length of an assembly is known at once.
type totals struct {
	count int
	size  int // bodies
	bare  int // bodies as fields of an assignment
	named int // bodies with their names as fields of a route table
}

func totalsOf(r *Resource) totals {
	return totals{
		count: 1,
		size:  r.size,
		bare:  sizeOfField(localityLbEndpoints, r.size),
		named: sizeOfField(routeVirtualHosts, sizeOfField(virtualHostName, len(r.name))+r.size),
	}
}

func (t *totals) add(o totals) {
	t.count += o.count
	t.size += o.size
	t.bare += o.bare
	t.named += o.named
}

func sizeOfField(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

// Name is the resource's xDS name.
func (r *Resource) Name() string { return r.name }

// Version is the content version.
func (r *Resource) Version() Version { return r.version }

// Size is the length of the body in bytes.
func (r *Resource) Size() int { return r.size }

// IsOwn tells that the body holds placeholders, so that a proxy gets Own.Resolve of it.
func (r *Resource) IsOwn() bool { return r.own }

// Body is the encoded message. It is shared: callers do not change it.
func (r *Resource) Body() []byte {
	if r.assemble != nil {
		r.once.Do(func() { r.body = r.assemble() })
	}
	return r.body
}

// Refs are the names that the resource needs. Those of a route table are its virtual hosts'.
func (r *Resource) Refs() Refs { return r.refs }

// VirtualHosts are the members of a route table, nil for other resources.
func (r *Resource) VirtualHosts() *Set {
	if r.table == nil {
		return nil
	}
	return r.table.vhosts
}

// Groups are the localities of an assignment, nil for other resources.
func (r *Resource) Groups() []Group { return r.groups }

func (v Version) bytes() []byte { return v[:] }
