package view

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Keeping is the route table with virtual hosts of an older one in place of its own: those that both have and that differ,
// for which instead says so, and whose domains are the same, since Envoy refuses a table that has a domain twice. It is the
// table itself if there are none. It costs the difference of the two, and sessions that come to the same mixture share it.
func (d *Differ) Keeping(table, older *Resource, instead func(older, newer *Resource) bool) *Resource {
	if table.table == nil || older.table == nil {
		return table
	}
	var edits []Edit
	Diff(older.table.vhosts, table.table.vhosts, func(was, is *Resource) {
		if was != nil && is != nil && instead(was, is) && sameDomains(was, is) {
			edits = append(edits, Edit{Name: was.name, Resource: was})
		}
	})
	if len(edits) == 0 {
		return table
	}
	return d.store.Canonical(NewRouteTable(table.name, table.table.head, d.store.Apply(table.table.vhosts, edits)))
}

// virtualHostDomains is VirtualHost.domains.
const virtualHostDomains protowire.Number = 2

func sameDomains(a, b *Resource) bool {
	return bytes.Equal(domainsOf(a.Body()), domainsOf(b.Body()))
}

// domainsOf are the encoded domains of a virtual host, one behind the other.
func domainsOf(body []byte) []byte {
	var domains []byte
	for len(body) > 0 {
		number, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil // what this process encoded decodes
		}
		size := protowire.ConsumeFieldValue(number, typ, body[n:])
		if size < 0 {
			return nil
		}
		if number == virtualHostDomains {
			domains = append(domains, body[:n+size]...)
		}
		body = body[n+size:]
	}
	return domains
}
