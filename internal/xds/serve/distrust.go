package serve

import (
	"container/list"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// names are resource names by type.
type names = [resource.NumTypes]map[string]struct{}

// distrustStore remembers, from one stream of a proxy to its next, the resources whose reported
// versions do not count, because the proxy may have refused what it reports. What is forgotten may
// stay stale at its proxy until its next change.
//
// Clients fill the store, so it is bounded by number, bytes and age. One owner has at most a
// quarter of it: its own oldest entries make room then, so that it makes nobody else's go.
type distrustStore struct {
	mu     sync.Mutex
	known  map[distrustKey]*list.Element // of entries
	oldest list.List                     // of *distrustEntry, oldest first
	owners map[owner]*distrustShare
	bytes  int // of all entries
}

// distrustKey is a proxy. A client without a proven Pod may have several, so its node id counts.
type distrustKey struct {
	owner owner
	node  string
}

type distrustEntry struct {
	key   distrustKey
	names names
	bytes int
	since time.Time
}

// distrustShare is what one owner has of the store.
type distrustShare struct{ entries, bytes int }

const (
	maxDistrusted     = 4096
	maxDistrustBytes  = 16 << 20
	maxEntryBytes     = 1 << 20
	maxDistrustAge    = 10 * time.Minute
	distrustOwnerPart = 4 // an owner has at most one in so many
	// bytesPerName is what a name takes in a map beside its bytes, and bytesPerEntry an entry.
	bytesPerName, bytesPerEntry = 40, 300
)

func distrustKeyOf(o owner, node *Node) distrustKey {
	if o.identity.Pod != "" {
		return distrustKey{owner: o}
	}
	return distrustKey{owner: o, node: node.ID}
}

// remember keeps what is distrusted of a proxy, and returns how many names, its own or of others,
// it dropped to stay within the bounds.
func (d *distrustStore) remember(key distrustKey, n names, now time.Time) (dropped int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
	d.drop(d.known[key])
	size := bytesPerEntry + len(key.node)
	size, dropped = d.shrink(&n, size)
	if size == bytesPerEntry+len(key.node) {
		return dropped
	}
	for e := d.oldest.Front(); e != nil && d.ownerIsFull(key.owner, size); {
		next := e.Next()
		if entryOf(e).key.owner == key.owner {
			dropped += d.drop(e)
		}
		e = next
	}
	for len(d.known) >= maxDistrusted || d.bytes+size > maxDistrustBytes {
		dropped += d.drop(d.oldest.Front())
	}
	d.insert(&distrustEntry{key: key, names: n, bytes: size, since: now})
	return dropped
}

// shrink removes names until an entry is no larger than maxEntryBytes. It returns the size of the
// entry, and how many names it removed. The maps are the session's, which has ended.
func (d *distrustStore) shrink(n *names, size int) (bytes, removed int) {
	for _, of := range n {
		for name := range of {
			if size+len(name)+bytesPerName > maxEntryBytes {
				delete(of, name)
				removed++
				continue
			}
			size += len(name) + bytesPerName
		}
	}
	return size, removed
}

// ownerIsFull reports whether an entry of so many bytes is too much for its owner.
func (d *distrustStore) ownerIsFull(o owner, size int) bool {
	share := d.owners[o]
	return share != nil && (share.entries >= maxDistrusted/distrustOwnerPart ||
		share.bytes+size > maxDistrustBytes/distrustOwnerPart)
}

func (d *distrustStore) insert(e *distrustEntry) {
	if d.known == nil {
		d.known, d.owners = map[distrustKey]*list.Element{}, map[owner]*distrustShare{}
	}
	d.known[e.key] = d.oldest.PushBack(e)
	d.bytes += e.bytes
	share := d.owners[e.key.owner]
	if share == nil {
		share = &distrustShare{}
		d.owners[e.key.owner] = share
	}
	share.entries++
	share.bytes += e.bytes
}

// take returns what is remembered of a proxy and forgets it: its new stream knows from then on.
func (d *distrustStore) take(key distrustKey, now time.Time) names {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
	e := d.known[key]
	if e == nil {
		return names{}
	}
	n := entryOf(e).names
	d.drop(e)
	return n
}

// expire drops what is too old.
func (d *distrustStore) expire(now time.Time) {
	for e := d.oldest.Front(); e != nil && now.Sub(entryOf(e).since) > maxDistrustAge; e = d.oldest.Front() {
		d.drop(e)
	}
}

// drop drops an entry, unless it is nil, and returns how many names it had.
func (d *distrustStore) drop(e *list.Element) (dropped int) {
	if e == nil {
		return 0
	}
	entry := entryOf(e)
	d.oldest.Remove(e)
	delete(d.known, entry.key)
	d.bytes -= entry.bytes
	share := d.owners[entry.key.owner]
	share.entries--
	share.bytes -= entry.bytes
	if share.entries == 0 {
		delete(d.owners, entry.key.owner)
	}
	for _, of := range entry.names {
		dropped += len(of)
	}
	return dropped
}

func entryOf(e *list.Element) *distrustEntry {
	entry, _ := e.Value.(*distrustEntry)
	return entry
}
