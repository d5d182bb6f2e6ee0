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

// setKey orders resources in a Set: a hash of the name, so that the shape of a Set depends on its
// content alone. What begins a key says what lies together:
//
//	[table of a virtual host] [domain of the host] hash of the name
//
// A table's virtual hosts can so be found in a Set of all tables' (Set.Under). Classes differ
// mostly in what their own namespaces have for themselves, and that is one domain: what they see
// alike is then below nodes that they share, and a change there is made once for all of them,
// however many services there are.
type setKey [16]byte

// How much of a key is of the table and of the domain; at least 96 bits are of the name, as of a
// Version.
const (
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

// putDomain writes a hash (FNV-1a, folded) of what a host stands in: "default.svc.cluster.local" of
// "reviews.default.svc.cluster.local:80". Domains that come to the same only lie together.
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
// Most resources are plain bytes. A list (a ClusterLoadAssignment, a whole RouteConfiguration) is
// an assembly: a head and Sets of members, each a Resource of its own; its bytes are put together
// from theirs when first asked for (a repeated protobuf field is a concatenation). A resource that
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
	framed   atomic.Pointer[framed]
	node     atomic.Pointer[node] // in the sets of a Store that has it

	refs       Refs
	assignment *assignment // nil for others
	head       []byte      // of a route table: all fields but virtual_hosts and vhds
	vhosts     *Set        // of a whole route table
	unnamed    int         // of a virtual host: where in the body the name ends
}

// New makes a resource from the deterministic encoding of its message.
func New(name string, body []byte) *Resource {
	return &Resource{name: name, key: keyOf(name), version: versionOf(body), body: body, size: len(body)}
}

// Refs are the names that a resource needs to be there to do its work, each once and sorted: the
// route tables of a listener, the clusters of a listener or virtual host, the secrets of a cluster
// that come over the stream. A session looks at them when its client lacks something that it
// refused, or may not have yet. Cluster names that a request brings along (cluster_header) are not
// known.
type Refs struct {
	Clusters, Routes, Secrets *model.List[string]
}

// Traits are what is known of a resource beside its body. The zero Traits are those of most
// resources.
type Traits struct {
	// Refs are the resources that it needs to do its work.
	Refs Refs
	// Placeholders tells that the body holds placeholders for the proxy's own addresses (Overlay).
	Placeholders bool
	// EDS tells of a cluster that its endpoints come by EDS.
	EDS bool
}

// NewWith makes a resource with traits from the deterministic encoding of its message.
func NewWith(name string, body []byte, t Traits) *Resource {
	r := New(name, body)
	r.refs, r.placeholders, r.eds = t.Refs, t.Placeholders, t.EDS
	return r
}

// Group is one LocalityLbEndpoints of an assignment: its head (all fields but lb_endpoints,
// encoded), and its endpoints.
type Group struct {
	Head    []byte
	Members *Set
}

// ClusterLoadAssignment.endpoints and LocalityLbEndpoints.lb_endpoints.
const (
	assignmentEndpoints protowire.Number = 2
	localityLbEndpoints protowire.Number = 2
)

// NewAssignment makes a ClusterLoadAssignment from its head (all fields but endpoints, encoded) and
// its groups.
func NewAssignment(name string, head []byte, groups []Group) *Resource {
	parts := [][]byte{head}
	size := len(head)
	sizes := make([]int, len(groups))
	for i, g := range groups {
		parts = append(parts, g.Head, g.Members.Root().bytes())
		sizes[i] = len(g.Head) + g.Members.total().bare
		size += sizeOfField(assignmentEndpoints, sizes[i])
	}
	r := &Resource{
		name:       name,
		key:        keyOf(name),
		version:    versionOf(parts...),
		assignment: &assignment{head: head, groups: groups},
		size:       size,
	}
	r.version[len(r.version)-1] &^= collected
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

// totals are sums over the members of a set, kept in its nodes, so that the length of an assembly
// is known at once.
type totals struct {
	count int
	size  int // bodies
	bare  int // bodies as fields of an assignment
	named int // virtual hosts as fields of a whole route table
}

func totalsOf(r *Resource) totals {
	return totals{
		count: 1,
		size:  r.size,
		bare:  sizeOfField(localityLbEndpoints, r.size),
		named: r.sizeInTable(),
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

// HasPlaceholders tells that the body holds placeholders, so that a proxy gets Overlay.Body in its
// place.
func (r *Resource) HasPlaceholders() bool { return r.placeholders }

// IsEDS tells of a cluster that its endpoints come by EDS.
func (r *Resource) IsEDS() bool { return r.eds }

// Body is the encoded message. It is shared: callers do not change it.
func (r *Resource) Body() []byte {
	if r.assemble != nil {
		r.once.Do(func() { r.body = r.assemble() })
	}
	return r.body
}

// framed is a resource as it stands in a response.
type framed struct {
	typ   Type
	bytes []byte
}

// Framed returns what encode makes of the resource as one of a type: made once, and kept, for
// resources that stand in the responses of many classes. It must not be called with different
// encoders, nor for a resource with placeholders.
func (r *Resource) Framed(t Type, encode func(Type, *Resource) []byte) []byte {
	if f := r.framed.Load(); f != nil && f.typ == t {
		return f.bytes
	}
	f := &framed{typ: t, bytes: encode(t, r)}
	r.framed.CompareAndSwap(nil, f) // resources of two types may be equal to the byte: the first that comes is kept
	return f.bytes
}

// Refs are the names that the resource needs. Those of a route table are its virtual hosts'.
func (r *Resource) Refs() Refs { return r.refs }

// Groups are the localities of an assignment, nil for other resources.
func (r *Resource) Groups() []Group {
	if r.assignment == nil {
		return nil
	}
	return r.assignment.groups
}

func (v Version) bytes() []byte { return v[:] }
