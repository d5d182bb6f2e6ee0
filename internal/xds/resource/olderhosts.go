package resource

// WithOlderHosts returns the whole route table with some virtual hosts replaced by those of an
// older table. It replaces a virtual host that both tables have in different versions if useOlder
// says so and both have the same domains: Envoy refuses a table that has a domain twice. It returns
// the table itself if it replaces none.
//
// It costs the difference of the two tables. Sessions that come to the same mixture share it.
func (d *Differ) WithOlderHosts(table, older *Resource, useOlder func(older, newer *Resource) bool) *Resource {
	if table.vhosts == nil || older.vhosts == nil {
		return table
	}
	var edits []Edit
	Diff(older.vhosts, table.vhosts, func(was, is *Resource) {
		if was != nil && is != nil && useOlder(was, is) && SameDomains(was, is) {
			edits = append(edits, Edit{Name: was.name, Resource: was})
		}
	})
	if len(edits) == 0 {
		return table
	}
	return d.store.Canonical(NewRouteTable(table.name, table.head, d.store.Apply(table.vhosts, edits)))
}
