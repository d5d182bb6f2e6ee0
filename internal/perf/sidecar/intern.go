package sidecar

import "hash/maphash"

// entry is a distinct resource, or the knowledge that there is none of a name. A loop has one of each, which all its sidecars
// share; it is immutable.
type entry struct {
	typ           Type
	name, version string
	// hash orders entries by name, and is the same in each process; key tells distinct ones apart in this one.
	hash, key uint64
	refers    []string
	vhds      bool
	absent    bool // the server said that there is none
	mark      Mark
	epoch     uint32 // of the last sweep that found it in use
}

// foreign tells that it refers to another name than its own.
func (e *entry) foreign() bool {
	return len(e.refers) > 1 || len(e.refers) == 1 && e.refers[0] != e.name
}

// found is a resource as it stands in a response.
type found struct {
	typ           Type
	name, version []byte
	body          []byte
	// seen is the version of the response, where resources have none of their own.
	seen []byte
}

// interner finds the entries of resources. A body is scanned and classified only when it is new.
type interner struct {
	seed     maphash.Seed
	entries  map[uint64]*entry
	classify func(Resource) Mark
}

func newInterner(classify func(Resource) Mark) *interner {
	return &interner{seed: maphash.MakeSeed(), entries: map[uint64]*entry{}, classify: classify}
}

// mix makes the order of what is mixed matter.
func mix(a, b uint64) uint64 {
	a = (a ^ b) * 0x9e3779b97f4a7c15
	return a ^ a>>29
}

func (in *interner) key(f *found) uint64 {
	k := mix(uint64(f.typ)+1, maphash.Bytes(in.seed, f.name))
	k = mix(k, maphash.Bytes(in.seed, f.version))
	return mix(k, maphash.Bytes(in.seed, f.body))
}

// entry is that of a resource. Two resources are taken for one if 64 bits of a keyed hash agree, and their names and versions.
func (in *interner) entry(f *found) (*entry, error) {
	key := in.key(f)
	for ; ; key++ {
		e, ok := in.entries[key]
		if !ok {
			break
		}
		if e.typ == f.typ && e.version == string(f.version) && (len(f.name) == 0 || e.name == string(f.name)) {
			return e, nil
		}
	}
	is, err := scan(f.typ, f.body)
	if err != nil {
		return nil, err
	}
	e := &entry{typ: f.typ, name: string(f.name), version: string(f.version), key: key, refers: is.refers, vhds: is.vhds}
	if e.name == "" {
		e.name = is.name
	}
	for i, name := range e.refers {
		if name == e.name {
			e.refers[i] = e.name // one string
		}
	}
	e.hash = nameHash(e.name)
	if in.classify != nil {
		r := Resource{TypeURL: f.typ.URL(), Name: e.name, Version: e.version, Body: f.body}
		if r.Version == "" {
			r.Version = string(f.seen)
		}
		e.mark = in.classify(r)
	}
	in.entries[key] = e
	return e, nil
}

// none is the entry of a name that there is no resource of.
func (in *interner) none(t Type, name string) *entry {
	key := mix(mix(0, uint64(t)), maphash.String(in.seed, name))
	for ; ; key++ {
		e, ok := in.entries[key]
		if !ok {
			e = &entry{typ: t, name: name, hash: nameHash(name), key: key, absent: true}
			in.entries[key] = e
			return e
		}
		if e.absent && e.typ == t && e.name == name {
			return e
		}
	}
}

// nameHash is FNV-1a, whose low bits are better than its high ones; tables are ordered by the high ones.
func nameHash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h, 0)
}
