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
	Filter
	Name
	NumTypes
)

// Phase is a step of make-before-break, the order in which a session sends a change
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

// sendOrder is a phase, and a place among the types sent in it.
type sendOrder struct {
	phase Phase
	place int
}

// typeInfo is what is known of a type.
type typeInfo struct {
	short, url string
	wildcard   bool      // clients ask for all resources without naming them
	upserts    sendOrder // when additions and changes go
	removals   sendOrder // when removals go
}

// types is the table of all types. A new type is a constant, a row here and its URL in typeurl.
var types = [NumTypes]typeInfo{
	// A cluster waits for nothing. It goes when no listener and no route names it any more.
	Cluster: {
		short:    "cds",
		url:      typeurl.Cluster,
		wildcard: true,
		upserts:  sendOrder{Make, 1},
		removals: sendOrder{RemoveClusters, 1},
	},
	// An assignment goes out behind its cluster, which does not warm without it, and is removed
	// after it.
	Endpoint: {
		short:    "eds",
		url:      typeurl.Endpoint,
		upserts:  sendOrder{Make, 2},
		removals: sendOrder{RemoveRest, 1},
	},
	// A member of a collection goes out behind the assignment that names the collection, and so
	// does its removal.
	LbEndpoint: {
		short:    "leds",
		url:      typeurl.LbEndpoint,
		upserts:  sendOrder{Make, 3},
		removals: sendOrder{Make, 3},
	},
	// A listener waits for the clusters that its filters name. Nothing names it, so that its
	// removal waits no longer than it.
	Listener: {
		short:    "lds",
		url:      typeurl.Listener,
		wildcard: true,
		upserts:  sendOrder{Refer, 1},
		removals: sendOrder{Refer, 1},
	},
	// A route table waits for the clusters that it names, and goes behind the listeners that ask
	// for it. It is removed when no listener has it any more.
	Route: {
		short:    "rds",
		url:      typeurl.Route,
		upserts:  sendOrder{Refer, 3},
		removals: sendOrder{RemoveRest, 3},
	},
	// A virtual host waits for the clusters that it names, and goes behind the head of its table.
	// It goes before its table. One whose table stays is removed with the table's other changes.
	VirtualHost: {
		short:    "vhds",
		url:      typeurl.VirtualHost,
		wildcard: true,
		upserts:  sendOrder{Refer, 4},
		removals: sendOrder{RemoveRest, 2},
	},
	// A secret waits for nothing. Clusters and listeners wait for it, and it goes when they are
	// gone.
	Secret: {
		short:    "sds",
		url:      typeurl.Secret,
		upserts:  sendOrder{Make, 4},
		removals: sendOrder{RemoveRest, 4},
	},
	// A filter of a listener (ECDS) waits for the clusters that it names, and goes behind the
	// listeners that ask for it. It is removed when no listener has it any more.
	Filter: {
		short:    "ecds",
		url:      typeurl.Filter,
		upserts:  sendOrder{Refer, 2},
		removals: sendOrder{RemoveRest, 5},
	},
	// A name waits for the clusters of the listeners that its addresses lead to. Nothing names it,
	// so that its removal waits no longer than it.
	Name: {
		short:    "nds",
		url:      typeurl.NameTable,
		wildcard: true,
		upserts:  sendOrder{Refer, 5},
		removals: sendOrder{Refer, 5},
	},
}

// The types of each phase, in the order of the table's places.
var (
	upsertsIn  = phases(func(r typeInfo) sendOrder { return r.upserts })
	removalsIn = phases(func(r typeInfo) sendOrder { return r.removals })
)

func phases(of func(typeInfo) sendOrder) (lists [numPhases][]Type) {
	for t, r := range types {
		p := of(r).phase
		lists[p] = append(lists[p], Type(t))
	}
	for _, list := range lists {
		slices.SortFunc(list, func(a, b Type) int { return cmp.Compare(of(types[a]).place, of(types[b]).place) })
	}
	return lists
}

// UpsertsIn returns the types whose additions and changes go in a phase, in their order. Callers
// must not change the list.
func UpsertsIn(p Phase) []Type { return upsertsIn[p] }

// RemovalsIn returns the types whose removals go in a phase, in their order. Callers must not
// change the list.
func RemovalsIn(p Phase) []Type { return removalsIn[p] }

// String returns the short name that metrics and tables use: "cds", "eds", …
func (t Type) String() string { return types[t].short }

// URL returns the type URL that goes on the wire.
func (t Type) URL() string { return types[t].url }

// Wildcard reports whether a client may ask for all resources of this type without naming them
// (CDS, LDS, VHDS and NDS).
func (t Type) Wildcard() bool { return types[t].wildcard }

// TypeByURL returns the type of a request; false for one that Lateen does not serve.
func TypeByURL(url string) (Type, bool) {
	for t := range types {
		if types[t].url == url {
			return Type(t), true
		}
	}
	return 0, false
}
