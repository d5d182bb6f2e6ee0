package resource

import "sync"

// Index finds the resources of a Set by name. It is for a caller that looks up most of a set, as
// for a client that reconnects and reports all that it has: Set.Get hashes the name each time,
// which costs several times as much. An Index takes some 80 bytes per resource and never changes.
type Index struct {
	at  map[string]Found
	all []*Resource
}

// Found is a resource as an index has it. The text of the version stands right behind the name:
// comparing what a client reports touches no resource and encodes no version.
type Found struct {
	place        int32
	placeholders bool
	text         [versionText]byte // of the version
}

// Place returns the place of the resource in its index.
func (f *Found) Place() int { return int(f.place) }

func newIndex(s *Set) *Index {
	x := &Index{at: make(map[string]Found, s.Len()), all: make([]*Resource, 0, s.Len())}
	for r := range s.All() {
		x.at[r.name] = Found{int32(len(x.all)), r.placeholders, r.version.text()}
		x.all = append(x.all, r)
	}
	return x
}

// Len returns the number of resources. Their places are 0 to Len-1.
func (x *Index) Len() int { return len(x.all) }

// At returns the resource at a place.
func (x *Index) At(place int) *Resource { return x.all[place] }

// Find returns the entry of a name; false if there is none.
func (x *Index) Find(name []byte) (Found, bool) {
	f, ok := x.at[string(name)]
	return f, ok
}

// Is reports whether version, as a client reports it, is the version that the found resource has
// for that client.
func (x *Index) Is(f *Found, version []byte, client *Overlay) bool {
	if f.placeholders {
		return client.Version(x.all[f.place]).String() == string(version)
	}
	return string(f.text[:]) == string(version)
}

// indexCache keeps the indexes of the sets that were asked for last. It is safe for concurrent use.
type indexCache struct {
	limit int // of resources in all of them; one that is larger is not kept

	mu      sync.Mutex
	entries map[Version]*cachedIndex
	order   []Version // of entries, oldest first
	size    int       // resources in entries
}

// cachedIndex is an index that is made when it is first needed.
type cachedIndex struct {
	size  int // resources in it
	once  sync.Once
	index *Index
}

// of returns the index of a set.
func (x *indexCache) of(s *Set) *Index {
	known := x.entry(s)
	// not under the lock: whoever needs another does not wait for it
	known.once.Do(func() { known.index = newIndex(s) })
	return known.index
}

func (x *indexCache) entry(s *Set) *cachedIndex {
	x.mu.Lock()
	defer x.mu.Unlock()
	root := s.Root()
	if known := x.entries[root]; known != nil {
		return known
	}
	made := &cachedIndex{size: s.Len()}
	if s.Len() > x.limit {
		return made
	}
	for x.size+s.Len() > x.limit {
		oldest := x.order[0]
		x.size -= x.entries[oldest].size
		delete(x.entries, oldest)
		x.order = x.order[1:]
	}
	if x.entries == nil {
		x.entries = map[Version]*cachedIndex{}
	}
	x.entries[root] = made
	x.order = append(x.order, root)
	x.size += s.Len()
	return made
}
