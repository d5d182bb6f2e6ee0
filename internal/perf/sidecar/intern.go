package sidecar

import "hash/maphash"

// entry is a distinct resource, or the absence of a name's resource. All sidecars of a loop share
// one entry. It is immutable.
type entry struct {
	typ           Type
	name, version string
	// hash is a hash of the name, by which tables are ordered. It is the same in all processes. key
	// identifies the entry in this process.
	hash, key uint64
	refers    []string
	vhds      bool
	absent    bool // the server said that the resource does not exist
	mark      Mark
	epoch     uint32 // of the last sweep that found it in use
}

// foreign reports whether it refers to a name other than its own.
func (e *entry) foreign() bool {
	return len(e.refers) > 1 || len(e.refers) == 1 && e.refers[0] != e.name
}

// received is a resource as it stands in a response.
type received struct {
	typ           Type
	name, version []byte
	body          []byte
	// responseVersion is the version of the response, for resources without their own.
	responseVersion []byte
}

// interner makes the entries of resources. It scans and classifies a body only when it is new.
type interner struct {
	seed     maphash.Seed
	entries  map[uint64]*entry
	classify func(Resource) Mark
}

func newInterner(classify func(Resource) Mark) *interner {
	return &interner{seed: maphash.MakeSeed(), entries: map[uint64]*entry{}, classify: classify}
}

// mix combines two hashes. Their order matters.
func mix(a, b uint64) uint64 {
	a = (a ^ b) * 0x9e3779b97f4a7c15
	return a ^ a>>29
}

func (in *interner) key(f *received) uint64 {
	k := mix(uint64(f.typ)+1, maphash.Bytes(in.seed, f.name))
	k = mix(k, maphash.Bytes(in.seed, f.version))
	return mix(k, maphash.Bytes(in.seed, f.body))
}

// intern returns the entry of a resource. Two resources share one if 64 bits of a keyed hash are
// equal, and their names and versions.
func (in *interner) intern(f *received) (*entry, error) {
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
	e := &entry{
		typ: f.typ, name: string(f.name), version: string(f.version), key: key, refers: is.refers, vhds: is.vhds,
	}
	if e.name == "" {
		e.name = is.name
	}
	for i, name := range e.refers {
		if name == e.name {
			e.refers[i] = e.name // share one string
		}
	}
	e.hash = nameHash(e.name)
	if in.classify != nil {
		r := Resource{TypeURL: f.typ.URL(), Name: e.name, Version: e.version, Body: f.body}
		if r.Version == "" {
			r.Version = string(f.responseVersion)
		}
		e.mark = in.classify(r)
	}
	in.entries[key] = e
	return e, nil
}

// absentEntry returns the entry of a name that has no resource.
func (in *interner) absentEntry(t Type, name string) *entry {
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

// nameHash is FNV-1a, mixed because tables are ordered by the high bits, and FNV's low bits are
// better.
func nameHash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h, 0)
}
