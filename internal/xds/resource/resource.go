package resource

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// setKey orders resources in a Set. It is a hash of the name, so that the shape of a Set depends on
// its content alone. A prefix puts related resources side by side:
//
//	[table of a virtual host] [domain of the host] hash of the name
//
// Set.Under finds a table's virtual hosts by the first part. The second part is for sharing:
// classes differ mostly in what their own namespaces add, and that is one domain. What they have in
// common then lies below nodes that they share, and a change there is made once for all of them.
type setKey [16]byte

// How much of a key is of the table and of the domain; at least 96 bits are of the name, as of a
// Version.
const (
	// tableNibbles and domainNibbles are the lengths of the prefixes. At least 96 bits of the key
	// are the name's, as in a Version.
	tableNibbles  = 4
	domainNibbles = 4
)

func keyOf(name string) setKey {
	sum := sha256.Sum256([]byte(name))
	if table, ok := TableOf(name); ok {
		of := tableKey(table)
		copy(sum[:], of[:])
		putDomain(sum[tableNibbles/2:], name[len(table)+1:])
	} else if i := strings.LastIndexByte(name, '|'); i >= 0 { // of a cluster, or its assignment
		putDomain(sum[:], name[i+1:])
	}
	return setKey(sum[:16])
}

// putDomain writes a hash (FNV-1a, folded) of the domain of a host: "default.svc.cluster.local" of
// "reviews.default.svc.cluster.local:80". Two domains with the same hash only lie side by side.
func putDomain(key []byte, host string) {
	host, _, _ = strings.Cut(host, ":")
	_, domain, _ := strings.Cut(host, ".")
	h := uint32(2166136261)
	for i := range len(domain) {
		h = (h ^ uint32(domain[i])) * 16777619
	}
	binary.BigEndian.PutUint16(key[:domainNibbles/2], uint16(h^h>>16))
}

func tableKey(table string) (key [tableNibbles / 2]byte) {
	sum := sha256.Sum256([]byte(table))
	copy(key[:], sum[:])
	return key
}

// Resource is one encoded xDS resource: a name, a content version and bytes. It never changes.
//
// Most resources are plain bytes. A ClusterLoadAssignment and a whole RouteConfiguration are
// assembled: a head and Sets of members, each a Resource of its own. Their bytes are concatenated
// when they are first asked for (a repeated protobuf field is a concatenation). A resource that
// depends on the proxy's own addresses holds placeholders in their place, see Overlay. Route tables
// and virtual hosts are in route.go.
type Resource struct {
	name         string
	key          setKey
	version      Version
	placeholders bool
	eds          bool // a cluster whose endpoints come by EDS
	size         int  // of the body in bytes, known without putting it together

	assemble func() []byte // nil for plain bytes
	once     sync.Once
	body     []byte
	encoding atomic.Pointer[encodedAs]
	node     atomic.Pointer[node] // in the sets of a Store that has it

	refs       Refs
	assignment *assignment // nil for others
	head       []byte      // of a route table: all fields but virtual_hosts and vhds
	vhosts     *Set        // of a whole route table
	nameEnd    int         // of a virtual host: where in the body the name ends
}

// New returns a resource of the deterministic encoding of its message.
func New(name string, body []byte) *Resource {
	return &Resource{name: name, key: keyOf(name), version: versionOf(body), body: body, size: len(body)}
}

// Refs are the names of the resources that a resource needs, each once and sorted: the route tables
// of a listener, the clusters of a listener or virtual host, the secrets of a cluster that come
// over the stream. A session reads them when its client has refused something, or may not have it
// yet. Cluster names that a request carries (cluster_header) are not among them.
type Refs struct {
	Clusters, Routes, Secrets *model.List[string]
}

// Traits are the properties of a resource beside its body. Most resources have the zero Traits.
type Traits struct {
	// Refs are the resources that it needs to do its work.
	Refs Refs
	// Placeholders is set if the body holds placeholders for the proxy's own addresses (Overlay).
	Placeholders bool
	// EDS is set for a cluster whose endpoints come by EDS.
	EDS bool
}

// NewWith returns a resource with traits of the deterministic encoding of its message.
func NewWith(name string, body []byte, t Traits) *Resource {
	r := New(name, body)
	r.refs, r.placeholders, r.eds = t.Refs, t.Placeholders, t.EDS
	return r
}

// Group is one LocalityLbEndpoints of an assignment: its head (all fields but lb_endpoints,
// encoded) and its endpoints.
type Group struct {
	Head    []byte
	Members *Set
}

// ClusterLoadAssignment.endpoints and LocalityLbEndpoints.lb_endpoints.
const (
	assignmentEndpoints protowire.Number = 2
	localityLbEndpoints protowire.Number = 2
)

// NewAssignment returns a ClusterLoadAssignment of its head (all fields but endpoints, encoded) and
// its groups.
func NewAssignment(name string, head []byte, groups []Group) *Resource {
	parts := [][]byte{head}
	size, endpoints := len(head), 0
	sizes := make([]int, len(groups))
	for i, g := range groups {
		endpoints += g.Members.Len()
		parts = append(parts, g.Head, g.Members.Root().bytes())
		sizes[i] = len(g.Head) + g.Members.total().inAssignment
		size += sizeOfField(assignmentEndpoints, sizes[i])
	}
	r := &Resource{
		name:       name,
		key:        keyOf(name),
		version:    versionOf(parts...),
		assignment: &assignment{head: head, groups: groups, size: endpoints},
		size:       size,
	}
	r.version[len(r.version)-1] &^= collectionBit
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

// totals are sums over the members of a set. Each node keeps them, so that the length of an
// assembled resource is known before it is assembled.
type totals struct {
	count        int
	size         int // bodies
	inAssignment int // bodies as fields of an assignment
	inTable      int // virtual hosts as fields of a whole route table
}

func totalsOf(r *Resource) totals {
	return totals{
		count:        1,
		size:         r.size,
		inAssignment: sizeOfField(localityLbEndpoints, r.size),
		inTable:      r.sizeInTable(),
	}
}

func (t *totals) add(o totals) {
	t.count += o.count
	t.size += o.size
	t.inAssignment += o.inAssignment
	t.inTable += o.inTable
}

func sizeOfField(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

// Name returns the resource's xDS name.
func (r *Resource) Name() string { return r.name }

// Version returns the content version.
func (r *Resource) Version() Version { return r.version }

// Size returns the length of the body in bytes.
func (r *Resource) Size() int { return r.size }

// HasPlaceholders reports whether the body holds placeholders. A proxy then gets Overlay.Body
// instead.
func (r *Resource) HasPlaceholders() bool { return r.placeholders }

// IsEDS reports whether the resource is a cluster whose endpoints come by EDS.
func (r *Resource) IsEDS() bool { return r.eds }

// Body returns the encoded message. It is shared: callers must not change it.
func (r *Resource) Body() []byte {
	if r.assemble != nil {
		r.once.Do(func() { r.body = r.assemble() })
	}
	return r.body
}

// encodedAs is a resource as it stands in a response.
type encodedAs struct {
	typ   Type
	bytes []byte
}

// Framed returns the encoding of the resource as one of a type. It encodes once and keeps the
// result, because many classes send the same resource. All callers must pass the same encoder, and
// no resource with placeholders.
func (r *Resource) Framed(t Type, encode func(Type, *Resource) []byte) []byte {
	if f := r.encoding.Load(); f != nil && f.typ == t {
		return f.bytes
	}
	f := &encodedAs{typ: t, bytes: encode(t, r)}
	r.encoding.CompareAndSwap(nil, f) // resources of two types may be equal to the byte: the first that comes is kept
	return f.bytes
}

// Refs returns the names that the resource needs. A route table has none of its own: those of its
// virtual hosts count.
func (r *Resource) Refs() Refs { return r.refs }

// Groups returns the localities of an assignment, nil for other resources.
func (r *Resource) Groups() []Group {
	if r.assignment == nil {
		return nil
	}
	return r.assignment.groups
}

func (v Version) bytes() []byte { return v[:] }
