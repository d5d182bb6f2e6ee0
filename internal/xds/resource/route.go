package resource

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// A route table has two forms with the same virtual hosts:
//
//	split  the table's head, which says that its virtual hosts come by VHDS, and each virtual
//	       host as a resource of its own, "<table>/<name>". This is what a State has.
//	whole  one RouteConfiguration with all virtual hosts: State.Tables, for clients that do not
//	       speak VHDS.
//
// The bytes of a virtual host are the same in both, but for its name, which they begin with.

// The numbers of the fields written here, of RouteConfiguration and VirtualHost.
const (
	routeVirtualHosts  protowire.Number = 2
	virtualHostName    protowire.Number = 1
	virtualHostDomains protowire.Number = 2
)

// vhdsConfig is RouteConfiguration.vhds: {config_source: {ads: {}, initial_fetch_timeout: 0s,
// resource_api_version: V3}}. Timeout 0 means none: a listener does not open before it has its
// virtual hosts.
const vhdsConfig = "\x4a\x08\x0a\x06\x1a\x00\x22\x00\x30\x02"

// TableOf returns the route table of a virtual host, given the name of its resource; false for a
// name that belongs to no table. Like Envoy it cuts at the last slash.
func TableOf(virtualHost string) (table string, ok bool) {
	i := strings.LastIndexByte(virtualHost, '/')
	if i < 0 {
		return "", false
	}
	return virtualHost[:i], true
}

// VirtualHostName returns the name of a virtual host as a resource.
func VirtualHostName(table, name string) string { return table + "/" + name }

// NewVirtualHost returns a virtual host of a table; rest is its encoding without the name. Its name
// as a resource and in its body is "<table>/<name>". In a whole table it is the name alone.
func NewVirtualHost(table, name string, rest []byte, refs Refs) *Resource {
	full := VirtualHostName(table, name)
	body := make([]byte, 0, sizeOfField(virtualHostName, len(full))+len(rest))
	body = protowire.AppendTag(body, virtualHostName, protowire.BytesType)
	body = protowire.AppendString(body, full)
	r := NewWith(full, append(body, rest...), Traits{Refs: refs})
	r.nameEnd = len(body)
	return r
}

// NewTableHead returns the head of a route table whose virtual hosts come by VHDS; head is the
// encoding of all other fields.
func NewTableHead(name string, head []byte) *Resource {
	body := append(append(make([]byte, 0, len(head)+len(vhdsConfig)), head...), vhdsConfig...)
	r := New(name, body)
	r.head = body[:len(head):len(head)]
	r.version[len(r.version)-1] |= splitBit
	return r
}

// NewWholeTable returns a whole route table of its encoding.
func NewWholeTable(name string, body []byte) *Resource {
	r := New(name, body)
	r.version[len(r.version)-1] &^= splitBit
	return r
}

// Restored returns a resource of an encoding and a version that it once had. It is to be shown: it
// has no references, and an assignment has no groups.
func Restored(t Type, name string, body []byte, version Version, placeholders bool) *Resource {
	r := NewWith(name, body, Traits{Placeholders: placeholders})
	switch t {
	case Route:
		r.head = bytes.TrimSuffix(body, []byte(vhdsConfig))
	case VirtualHost:
		r.nameEnd = sizeOfField(virtualHostName, len(name))
	}
	r.version = version
	return r
}

// NameOnly returns the encoding of a resource that is nothing but a name, which is field 1 of all
// types that are named.
func NameOnly(name string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, virtualHostName, protowire.BytesType), name)
}

// NoVirtualHost returns a name of a virtual host that no table has.
func NoVirtualHost(table string) string { return VirtualHostName(table, "*") }

// NewRouteTable returns a whole RouteConfiguration of its head (all fields but virtual_hosts,
// encoded) and its virtual hosts.
func NewRouteTable(name string, head []byte, vhosts *Set) *Resource {
	r := &Resource{
		name:    name,
		key:     keyOf(name),
		version: versionOf(head, vhosts.Root().bytes()),
		head:    head,
		vhosts:  vhosts,
	}
	r.version[len(r.version)-1] &^= splitBit
	r.size = len(head) + vhosts.total().inTable
	r.assemble = func() []byte {
		b := append(make([]byte, 0, r.size), head...)
		for m := range vhosts.All() {
			name, rest := m.nameInTable(), m.Body()[m.nameEnd:]
			b = protowire.AppendTag(b, routeVirtualHosts, protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(sizeOfField(virtualHostName, len(name))+len(rest)))
			b = protowire.AppendTag(b, virtualHostName, protowire.BytesType)
			b = protowire.AppendString(b, name)
			b = append(b, rest...)
		}
		return b
	}
	return r
}

// nameInTable returns a virtual host's name without that of its table.
func (r *Resource) nameInTable() string { return r.name[strings.LastIndexByte(r.name, '/')+1:] }

// sizeInTable returns how many bytes a virtual host takes as a field of a whole table.
func (r *Resource) sizeInTable() int {
	return sizeOfField(routeVirtualHosts, sizeOfField(virtualHostName, len(r.nameInTable()))+r.size-r.nameEnd)
}

// VirtualHosts returns the members of a whole route table, nil for other resources.
func (r *Resource) VirtualHosts() *Set { return r.vhosts }

// Domains returns the domains of a virtual host in the order of its body, duplicates included. It
// returns nil for other resources.
func (r *Resource) Domains() []string {
	if r.nameEnd == 0 {
		return nil
	}
	var domains []string
	for d := range fields(r.Body(), virtualHostDomains) {
		domains = append(domains, string(d))
	}
	return domains
}

// SameDomains reports whether two virtual hosts take requests for the same domains.
func SameDomains(a, b *Resource) bool {
	next, stop := iter.Pull(fields(b.Body(), virtualHostDomains))
	defer stop()
	for d := range fields(a.Body(), virtualHostDomains) {
		if o, ok := next(); !ok || !bytes.Equal(d, o) {
			return false
		}
	}
	_, more := next()
	return !more
}

// fields yields the values of a length-delimited field. The body is always valid: this process
// encoded it.
func fields(body []byte, field protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(body) > 0 {
			number, typ, n := protowire.ConsumeTag(body)
			if n < 0 {
				return
			}
			size := protowire.ConsumeFieldValue(number, typ, body[n:])
			if size < 0 {
				return
			}
			if number == field && typ == protowire.BytesType {
				if v, _ := protowire.ConsumeBytes(body[n:]); !yield(v) {
					return
				}
			}
			body = body[n+size:]
		}
	}
}

// Under yields the virtual hosts of one table, in a set of all tables' virtual hosts. It costs what
// it yields.
func (s *Set) Under(table string) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		s.underTable(table).each(func(r *Resource) bool {
			of, ok := TableOf(r.name)
			return !ok || of != table || yield(r)
		})
	}
}

// underTable returns the node of a table's virtual hosts, in a set of all tables' virtual hosts;
// nil if it has none. There may be others below it, whose table has the same hash.
func (s *Set) underTable(table string) *node {
	key := tableKey(table)
	n := s.root
	for depth := 0; n != nil && depth < tableNibbles; depth++ {
		n = n.under(nibbleAt(key[:], depth), depth)
	}
	return n
}

// tables assembles whole tables for a class's clients that do not speak VHDS. Each call costs what
// differs from the call before. Without such clients no table is assembled. It is safe for
// concurrent use.
type tables struct {
	store *Store

	mu sync.Mutex
	// heads and vhosts are the input that members and whole were made from.
	heads, vhosts *Set // that the others are of
	members       map[string]*Set
	whole         *Set
	names         *Set // what named was made from; nil if it was not made
	named         *Set
}

func newTables(store *Store) *tables {
	return &tables{store: store, heads: emptySet, vhosts: emptySet, members: map[string]*Set{}, whole: emptySet}
}

// clone returns a copy that goes on from the same state.
func (t *tables) clone() *tables {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &tables{
		store: t.store, heads: t.heads, vhosts: t.vhosts, members: maps.Clone(t.members), whole: t.whole,
		names: t.names, named: t.named,
	}
}

// of returns the whole tables of these heads and virtual hosts. It leaves out virtual hosts without
// a head.
func (t *tables) of(heads, vhosts *Set) *Set {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heads.Equal(heads) && t.vhosts.Equal(vhosts) {
		return t.whole
	}
	touched := map[string][]Edit{}
	touch := func(table string, edits ...Edit) { touched[table] = append(touched[table], edits...) }
	Diff(t.vhosts, vhosts, func(old, is *Resource) {
		name := cmp.Or(is, old).name
		table, _ := TableOf(name)
		touch(table, Edit{Name: name, Resource: is})
	})
	Diff(t.heads, heads, func(old, is *Resource) { touch(cmp.Or(is, old).name) })
	var edits []Edit
	for name, e := range touched {
		edits = append(edits, Edit{Name: name, Resource: t.assemble(name, heads.Get(name), e)})
	}
	t.heads, t.vhosts, t.whole = heads, vhosts, t.store.Apply(t.whole, edits)
	return t.whole
}

// assemble returns one whole table, nil if it has no head. A resource that is no head is returned
// as it is: it is a whole table already.
func (t *tables) assemble(name string, head *Resource, edits []Edit) *Resource {
	members, ok := t.members[name]
	if !ok {
		members = emptySet
	}
	members = t.store.Apply(members, edits)
	if members.Len() == 0 {
		delete(t.members, name)
	} else {
		t.members[name] = members
	}
	if head == nil || head.head == nil || head.vhosts != nil {
		return head
	}
	return t.store.Canonical(NewRouteTable(name, head.head, members))
}
