package resource

// Names have two forms, as route tables have. A State has each name as a resource of its own, whose
// body is a NameTable with that name alone. Clients that take one table get the bodies of all, one
// after the other: a NameTable is a map, which is a repeated field.

// nameTable is the name of the resource that is the whole table. Istio's has none.
const nameTable = ""

// NewNameTable returns the table with all names of a set.
func NewNameTable(names *Set) *Resource {
	r := &Resource{
		name:    nameTable,
		key:     keyOf(nameTable),
		version: versionOf(names.Root().bytes()),
		size:    names.Size(),
	}
	r.assemble = func() []byte {
		b := make([]byte, 0, r.size)
		for n := range names.All() {
			b = append(b, n.Body()...)
		}
		return b
	}
	return r
}

// withAll returns the set with the whole table of some names.
func (t *tables) withAll(names *Set) *Set {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil || !t.names.Equal(names) {
		t.names, t.named = names, t.store.Build(NewNameTable(names))
	}
	return t.named
}
