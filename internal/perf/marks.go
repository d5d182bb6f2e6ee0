package perf

import (
	"iter"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// resourceGroup is a group of xDS types by which a change arrives.
type resourceGroup uint8

// The resource groups. Endpoints come as assignments or one by one, routes as tables or virtual
// hosts.
const (
	clusters resourceGroup = iota
	endpoints
	routes
	numGroups
)

var groupOf = map[string]resourceGroup{
	typeurl.Cluster:     clusters,
	typeurl.Endpoint:    endpoints,
	member:              endpoints,
	typeurl.Route:       routes,
	typeurl.VirtualHost: routes,
}

// member is the type of an endpoint that is a resource of its own (LEDS).
const member = typeurl.LbEndpoint

// mark is what is known of a resource, in the 64 bits that a fleet keeps for it:
//
//	bits 0…2    group+1
//	bit  3      isMember
//	bits 8…31   the highest marker
//	bits 32…63  of a member its address, else how many removals the resource is known to include
//
// The zero mark says that nothing is known.
type mark uint64

const memberBit = 1 << 3

func newMark(l resourceGroup, change load.Marker, rest uint32) mark {
	return mark(l+1) | mark(change)<<8 | mark(rest)<<32
}

func (m mark) group() resourceGroup { return resourceGroup(m&7) - 1 }
func (m mark) isMember() bool       { return m&memberBit != 0 }
func (m mark) change() load.Marker  { return load.Marker(m >> 8 & 0xffffff) }
func (m mark) rest() uint32         { return uint32(m >> 32) }

// classify returns the mark of a resource. It is called once for each distinct one.
func (t *tracker) classify(typeURL, name string, body []byte) uint64 {
	l, ok := groupOf[typeURL]
	if !ok {
		return 0
	}
	change := max(load.Marked(body), load.Marked([]byte(name)))
	m := newMark(l, change, 0)
	switch {
	case typeURL == member:
		address, _ := load.Address(body)
		m = newMark(l, change, address) | memberBit
	case l == endpoints && name == t.removalCluster:
		m = newMark(l, change, uint32(t.removalsSeen(body)))
	}
	if m.change() == 0 && m.rest() == 0 {
		return 0
	}
	return uint64(m)
}

// removalsSeen returns how many of the removals, in order, an assignment of the service includes:
// it contains none of these pods. An assignment without endpoints says nothing, because its
// endpoints are resources of their own.
func (t *tracker) removalsSeen(body []byte) load.Marker {
	if _, any := load.Address(body); !any {
		return 0
	}
	return t.removalsWithout(load.Addresses(body))
}

// collected returns the mark of a collection's first answer, which has all its members: a sidecar
// that had a list is not told what to remove.
func (t *tracker) collected(assignment string, members []uint64) uint64 {
	if assignment != t.removalCluster {
		return 0
	}
	seen := t.removalsWithout(func(yield func(uint32) bool) {
		for _, m := range members {
			if !yield(mark(m).rest()) {
				return
			}
		}
	})
	if seen == 0 {
		return 0
	}
	return uint64(newMark(endpoints, 0, uint32(seen)))
}

// removalsWithout returns how many of the removals, in order, a list of addresses includes: it
// contains none of these pods.
func (t *tracker) removalsWithout(addresses iter.Seq[uint32]) load.Marker {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := load.Marker(len(t.removals.changes))
	for address := range addresses {
		if n := t.removed[address]; n > 0 {
			seen = min(seen, n-1)
		}
	}
	return seen
}
