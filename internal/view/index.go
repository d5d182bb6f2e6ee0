package view

import "sync"

// Index finds the resources of a Set by name at a fraction of what Set.Get costs, which hashes the name: for whoever looks up
// most of a set, as a client does that comes back and says all that it has. It costs some 80 bytes for each resource, and never changes.
type Index struct {
	at  map[string]int
	all []indexed
}

// indexed is a resource beside what is compared with what clients report, so that neither the resource is touched nor its version
// is written out for each of them.
type indexed struct {
	*Resource
	text [versionText]byte // of the version
}

func newIndex(s *Set) *Index {
	x := &Index{at: make(map[string]int, s.Len()), all: make([]indexed, 0, s.Len())}
	for r := range s.All() {
		x.at[r.name] = len(x.all)
		x.all = append(x.all, indexed{r, r.version.text()})
	}
	return x
}

// Len is the number of resources, whose places are 0 to Len-1.
func (x *Index) Len() int { return len(x.all) }

// At is the resource at a place.
func (x *Index) At(place int) *Resource { return x.all[place].Resource }

// Find is the place of a name; false when there is none.
func (x *Index) Find(name []byte) (place int, ok bool) {
	place, ok = x.at[string(name)]
	return place, ok
}

// Is tells whether a version that a client reports is the one that the resource at a place has for that client.
func (x *Index) Is(place int, version []byte, client *Own) bool {
	r := &x.all[place]
	if r.own {
		return client.Version(r.Resource).String() == string(version)
	}
	return string(r.text[:]) == string(version)
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
