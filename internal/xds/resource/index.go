package resource

import "sync"

// Index finds the resources of a Set by name at a fraction of what Set.Get costs, which hashes the
// name: for whoever looks up most of a set, as a client does that comes back and says all that it
// has. It costs some 80 bytes for each resource, and never changes.
type Index struct {
	at  map[string]Found
	all []*Resource
}

// Found is a resource as an index has it. What is compared with what clients report stands right
// behind the name, so that neither the resource is touched nor its version is written out for each
// of them.
type Found struct {
	place        int32
	placeholders bool
	text         [versionText]byte // of the version
}

// Place is that of the resource in its index.
func (f *Found) Place() int { return int(f.place) }

func newIndex(s *Set) *Index {
	x := &Index{at: make(map[string]Found, s.Len()), all: make([]*Resource, 0, s.Len())}
	for r := range s.All() {
		x.at[r.name] = Found{int32(len(x.all)), r.placeholders, r.version.text()}
		x.all = append(x.all, r)
	}
	return x
}

// Len is the number of resources, whose places are 0 to Len-1.
func (x *Index) Len() int { return len(x.all) }

// At is the resource at a place.
func (x *Index) At(place int) *Resource { return x.all[place] }

// Find looks for a name; false when there is none.
func (x *Index) Find(name []byte) (Found, bool) {
	f, ok := x.at[string(name)]
	return f, ok
}

// Is tells whether a version that a client reports is the one that what was found has for that
// client.
func (x *Index) Is(f *Found, version []byte, client *Overlay) bool {
	if f.placeholders {
		return client.Version(x.all[f.place]).String() == string(version)
	}
	return string(f.text[:]) == string(version)
}

// indexes are those of the sets that were asked for last. It is safe for concurrent use.
type indexes struct {
	limit int // of resources in all of them; one that is larger is not kept

	mu    sync.Mutex
	known map[Version]*index
	order []Version // of known, oldest first
	size  int       // resources in known
}

// index is one that is made when it is first needed.
type index struct {
	size int // resources in it
	once sync.Once
	made *Index
}

// of is the index of a set.
func (x *indexes) of(s *Set) *Index {
	known := x.entry(s)
	known.once.Do(func() { known.made = newIndex(s) }) // not under the lock: whoever needs another does not wait for it
	return known.made
}

func (x *indexes) entry(s *Set) *index {
	x.mu.Lock()
	defer x.mu.Unlock()
	root := s.Root()
	if known := x.known[root]; known != nil {
		return known
	}
	made := &index{size: s.Len()}
	if s.Len() > x.limit {
		return made
	}
	for x.size+s.Len() > x.limit {
		oldest := x.order[0]
		x.size -= x.known[oldest].size
		delete(x.known, oldest)
		x.order = x.order[1:]
	}
	if x.known == nil {
		x.known = map[Version]*index{}
	}
	x.known[root] = made
	x.order = append(x.order, root)
	x.size += s.Len()
	return made
}
