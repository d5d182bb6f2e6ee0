package resource

// Keeping is the whole route table with virtual hosts of an older one in place of its own: those
// that both have and that differ, for which instead says so, and whose domains are the same, since
// Envoy refuses a table that has a domain twice. It is the table itself if there are none. It costs
// the difference of the two, and sessions that come to the same mixture share it.
func (d *Differ) Keeping(table, older *Resource, instead func(older, newer *Resource) bool) *Resource {
	if table.vhosts == nil || older.vhosts == nil {
		return table
	}
	var edits []Edit
	Diff(older.vhosts, table.vhosts, func(was, is *Resource) {
		if was != nil && is != nil && instead(was, is) && SameDomains(was, is) {
			edits = append(edits, Edit{Name: was.name, Resource: was})
		}
	})
	if len(edits) == 0 {
		return table
	}
	return d.store.Canonical(NewRouteTable(table.name, table.head, d.store.Apply(table.vhosts, edits)))
}
