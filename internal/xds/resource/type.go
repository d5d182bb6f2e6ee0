package resource

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// Type is one xDS resource type that Lateen serves.
type Type uint8

// The types in the order in which they are made: clusters with their endpoints, then what names
// them. LbEndpoint is a form in which endpoints go to clients, see collections.go: no State has a
// set of it.
const (
	Cluster Type = iota
	Endpoint
	LbEndpoint
	Listener
	Route
	VirtualHost
	Secret
	NumTypes
)

// Phase is a step of make before break, the order in which a session sends a change
// (session/order.go). A phase begins when what it waits for is there.
type Phase uint8

const (
	// Make sends what needs nothing else. It waits for nothing.
	Make Phase = iota
	// Refer sends what names clusters. It waits until the client has ACKed the clusters.
	Refer
	// RemoveClusters waits until the client has ACKed all that was sent in Refer, and replaced
	// listeners have drained.
	RemoveClusters
	// RemoveRest removes what clusters, listeners and tables named. It waits until the client has
	// ACKed that clusters go.
	RemoveRest
	numPhases
)

// order is a phase and a place among the types that it sends.
type order struct {
	phase Phase
	place int
}

// row is what is known of a type.
type row struct {
	short, url string
	wildcard   bool  // clients ask for all resources without naming them
	upserts    order // when additions and changes go
	removals   order // when removals go
}

// types is the one table of the types. A new type is a constant, a row here and its URL in typeurl.
var types = [NumTypes]row{
	// A cluster waits for nothing. It goes when no listener and no route names it any more.
	Cluster: {
		short:    "cds",
		url:      typeurl.Cluster,
		wildcard: true,
		upserts:  order{Make, 1},
		removals: order{RemoveClusters, 1},
	},
	// An assignment goes out behind its cluster, which does not warm without it, and is removed
	// after it.
	Endpoint: {
		short:    "eds",
		url:      typeurl.Endpoint,
		upserts:  order{Make, 2},
		removals: order{RemoveRest, 1},
	},
	// A member of a collection goes out behind the assignment that names the collection, and so
	// does its removal.
	LbEndpoint: {
		short:    "leds",
		url:      typeurl.LbEndpoint,
		upserts:  order{Make, 3},
		removals: order{Make, 3},
	},
	// A listener waits for the clusters that its filters name. Nothing names it, so that its
	// removal waits no longer than it.
	Listener: {
		short:    "lds",
		url:      typeurl.Listener,
		wildcard: true,
		upserts:  order{Refer, 1},
		removals: order{Refer, 1},
	},
	// A route table waits for the clusters that it names, and goes behind the listeners that ask
	// for it. It is removed when no listener has it any more.
	Route: {
		short:    "rds",
		url:      typeurl.Route,
		upserts:  order{Refer, 2},
		removals: order{RemoveRest, 3},
	},
	// A virtual host waits for the clusters that it names, and goes behind the head of its table.
	// It goes before its table. One whose table stays is removed with the table's other changes.
	VirtualHost: {
		short:    "vhds",
		url:      typeurl.VirtualHost,
		wildcard: true,
		upserts:  order{Refer, 3},
		removals: order{RemoveRest, 2},
	},
	// A secret waits for nothing. Clusters and listeners wait for it, and it goes when they are
	// gone.
	Secret: {
		short:    "sds",
		url:      typeurl.Secret,
		upserts:  order{Make, 4},
		removals: order{RemoveRest, 4},
	},
}

// The types of each phase, in the order of the table's places.
var (
	upsertsIn  = phases(func(r row) order { return r.upserts })
	removalsIn = phases(func(r row) order { return r.removals })
)

func phases(of func(row) order) (lists [numPhases][]Type) {
	for t, r := range types {
		p := of(r).phase
		lists[p] = append(lists[p], Type(t))
	}
	for _, list := range lists {
		slices.SortFunc(list, func(a, b Type) int { return cmp.Compare(of(types[a]).place, of(types[b]).place) })
	}
	return lists
}

// UpsertsIn are the types whose additions and changes go in a phase, in their order. Callers do not
// change the list.
func UpsertsIn(p Phase) []Type { return upsertsIn[p] }

// RemovalsIn are the types whose removals go in a phase, in their order. Callers do not change the
// list.
func RemovalsIn(p Phase) []Type { return removalsIn[p] }

// String is the short name that metrics and tables use: "cds", "eds", …
func (t Type) String() string { return types[t].short }

// URL is the type URL that goes on the wire.
func (t Type) URL() string { return types[t].url }

// Wildcard tells whether a client may ask for all resources of this type without naming them (CDS,
// LDS and VHDS).
func (t Type) Wildcard() bool { return types[t].wildcard }

// TypeByURL finds the type of a request; false for one that Lateen does not serve.
func TypeByURL(url string) (Type, bool) {
	for t := range types {
		if types[t].url == url {
			return Type(t), true
		}
	}
	return 0, false
}
