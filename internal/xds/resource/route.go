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

// Route tables have two forms, of the same virtual hosts:
//
//	in pieces  the table's head, which says that its virtual hosts come by VHDS; and each virtual host as a resource of its own,
//	           "<table>/<name>". This is what a State has.
//	whole      one RouteConfiguration with all of them in it: State.Tables, put together for clients that do not speak VHDS.
//
// The bytes of a virtual host are the same in both, but for its name, which begins them.

// Fields that are written here: of RouteConfiguration and VirtualHost.
const (
	routeVirtualHosts  protowire.Number = 2
	virtualHostName    protowire.Number = 1
	virtualHostDomains protowire.Number = 2
)

// overVHDS is RouteConfiguration.vhds: {config_source: {ads: {}, initial_fetch_timeout: 0s,
// resource_api_version: V3}}. Without a timeout, a listener does not open before its virtual hosts
// are there.
const overVHDS = "\x4a\x08\x0a\x06\x1a\x00\x22\x00\x30\x02"

// TableOf is the route table that a virtual host belongs to, by its resource's name; false for a
// name that is of no table. Envoy cuts at the last slash as well.
func TableOf(virtualHost string) (table string, ok bool) {
	i := strings.LastIndexByte(virtualHost, '/')
	if i < 0 {
		return "", false
	}
	return virtualHost[:i], true
}

// VirtualHostName is the name of a virtual host as a resource.
func VirtualHostName(table, name string) string { return table + "/" + name }

// NewVirtualHost makes a virtual host of a table from its encoding without the name. Its name as a
// resource and in its body is "<table>/<name>"; in a whole table it is the name alone.
func NewVirtualHost(table, name string, unnamed []byte, refs Refs) *Resource {
	full := VirtualHostName(table, name)
	body := make([]byte, 0, sizeOfField(virtualHostName, len(full))+len(unnamed))
	body = protowire.AppendTag(body, virtualHostName, protowire.BytesType)
	body = protowire.AppendString(body, full)
	r := NewWith(full, append(body, unnamed...), Traits{Refs: refs})
	r.unnamed = len(body)
	return r
}

// NewTableHead makes the head of a route table whose virtual hosts come by VHDS, from all other
// fields, encoded.
func NewTableHead(name string, head []byte) *Resource {
	body := append(append(make([]byte, 0, len(head)+len(overVHDS)), head...), overVHDS...)
	r := New(name, body)
	r.head = body[:len(head):len(head)]
	r.version[len(r.version)-1] |= inPieces
	return r
}

// NewWholeTable makes a whole route table of its encoding.
func NewWholeTable(name string, body []byte) *Resource {
	r := New(name, body)
	r.version[len(r.version)-1] &^= inPieces
	return r
}

// NoVirtualHost is the name of a virtual host that no table has.
func NoVirtualHost(table string) string { return VirtualHostName(table, "*") }

// NewRouteTable makes a whole RouteConfiguration from its head (all fields but virtual_hosts,
// encoded) and its virtual hosts.
func NewRouteTable(name string, head []byte, vhosts *Set) *Resource {
	r := &Resource{
		name:    name,
		key:     keyOf(name),
		version: versionOf(head, vhosts.Root().bytes()),
		head:    head,
		vhosts:  vhosts,
	}
	r.version[len(r.version)-1] &^= inPieces
	r.size = len(head) + vhosts.total().named
	r.assemble = func() []byte {
		b := append(make([]byte, 0, r.size), head...)
		for m := range vhosts.All() {
			name, unnamed := m.nameInTable(), m.Body()[m.unnamed:]
			b = protowire.AppendTag(b, routeVirtualHosts, protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(sizeOfField(virtualHostName, len(name))+len(unnamed)))
			b = protowire.AppendTag(b, virtualHostName, protowire.BytesType)
			b = protowire.AppendString(b, name)
			b = append(b, unnamed...)
		}
		return b
	}
	return r
}

// nameInTable is a virtual host's name without that of its table.
func (r *Resource) nameInTable() string { return r.name[strings.LastIndexByte(r.name, '/')+1:] }

// sizeInTable is how many bytes a virtual host has as a field of a whole table.
func (r *Resource) sizeInTable() int {
	return sizeOfField(routeVirtualHosts, sizeOfField(virtualHostName, len(r.nameInTable()))+r.size-r.unnamed)
}

// VirtualHosts are the members of a whole route table, nil for other resources.
func (r *Resource) VirtualHosts() *Set { return r.vhosts }

// Domains are those of a virtual host, as often and in the order in which they stand there; none
// for other resources.
func (r *Resource) Domains() []string {
	if r.unnamed == 0 {
		return nil
	}
	var domains []string
	for d := range fields(r.Body(), virtualHostDomains) {
		domains = append(domains, string(d))
	}
	return domains
}

// SameDomains tells that two virtual hosts take the requests for the same domains.
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

// fields yields the values of a length-delimited field. What this process encoded decodes.
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

// Under yields what belongs to a table, in a set of virtual hosts of all tables. It costs what it
// yields.
func (s *Set) Under(table string) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		key := tableKey(table)
		n := s.root
		for depth := 0; n != nil && depth < tableNibbles; depth++ {
			n = n.under(nibbleAt(key[:], depth), depth)
		}
		n.each(func(r *Resource) bool {
			of, ok := TableOf(r.name)
			return !ok || of != table || yield(r)
		})
	}
}

// tables puts whole tables together, for a class's clients that do not speak VHDS, at the cost of
// what differs from the last ones that it was asked for. Without such clients there are none. It is
// safe for concurrent use.
type tables struct {
	store *Store

	mu            sync.Mutex
	heads, vhosts *Set // that the others are of
	members       map[string]*Set
	whole         *Set
}

func newTables(store *Store) *tables {
	return &tables{store: store, heads: emptySet, vhosts: emptySet, members: map[string]*Set{}, whole: emptySet}
}

// clone begins where the other is.
func (t *tables) clone() *tables {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &tables{store: t.store, heads: t.heads, vhosts: t.vhosts, members: maps.Clone(t.members), whole: t.whole}
}

// of are the tables of these heads and virtual hosts. Virtual hosts without a head are in none.
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

// assemble makes one table, nil if it has no head. What is not a head is the whole table already.
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
