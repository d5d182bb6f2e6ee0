package perf

import (
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// lane is a part of configuration in which a change arrives.
type lane uint8

// The lanes. Endpoints come as assignments or one by one, routes as tables or as virtual hosts.
const (
	clusters lane = iota
	endpoints
	routes
	numLanes
)

var laneOf = map[string]lane{
	typeurl.Cluster:     clusters,
	typeurl.Endpoint:    endpoints,
	member:              endpoints,
	typeurl.Route:       routes,
	typeurl.VirtualHost: routes,
}

// member is the type of an endpoint that comes by itself.
const member = typeurl.LbEndpoint

// mark is what is known of a resource, in the 64 bits that a fleet keeps of it:
//
//	0      3        4            20                        32 bits
//	lane+1 isMember (none)       highest change            of a member its address, else how many removals it is known to be without
//
// The zero mark is a resource of which nothing is known.
type mark uint64

const memberBit = 1 << 3

func newMark(l lane, change load.Marker, rest uint32) mark {
	return mark(l+1) | mark(change)<<8 | mark(rest)<<32
}

func (m mark) lane() lane          { return lane(m&7) - 1 }
func (m mark) isMember() bool      { return m&memberBit != 0 }
func (m mark) change() load.Marker { return load.Marker(m >> 8 & 0xffffff) }
func (m mark) rest() uint32        { return uint32(m >> 32) }

// classify is the mark of a resource; once for each distinct one.
func (t *tracker) classify(typeURL, name string, body []byte) uint64 {
	l, ok := laneOf[typeURL]
	if !ok {
		return 0
	}
	change := max(load.Marked(body), load.Marked([]byte(name)))
	m := newMark(l, change, 0)
	switch {
	case typeURL == member:
		address, _ := load.Address(body)
		m = newMark(l, change, address) | memberBit
	case l == endpoints && name == t.churned:
		m = newMark(l, change, uint32(t.without(body)))
	}
	if m.change() == 0 && m.rest() == 0 {
		return 0
	}
	return uint64(m)
}

// without is how many of the removals, in their order, an assignment of the service has seen: none of those pods is in it. One without
// any endpoint says nothing: its endpoints come one by one.
func (t *tracker) without(body []byte) load.Marker {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen, any := load.Marker(len(t.removals.changes)), false
	for address := range load.Addresses(body) {
		any = true
		if n := t.removed[address]; n > 0 {
			seen = min(seen, n-1)
		}
	}
	if !any {
		return 0
	}
	return seen
}
