package leanproxy

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// Type is a type URL.
type Type string

// The types that a proxy asks for, in this order.
const (
	Cluster  Type = typeurl.Cluster
	Endpoint Type = typeurl.Endpoint
	// Member is an endpoint of a collection, which is asked for when an assignment names it.
	Member   Type = typeurl.LbEndpoint
	Listener Type = typeurl.Listener
	Route    Type = typeurl.Route
	// VirtualHost is asked for when a route table says that it gets its virtual hosts so.
	VirtualHost Type = typeurl.VirtualHost
)

// Types are all of them.
func Types() []Type { return []Type{Cluster, Endpoint, Member, Listener, Route, VirtualHost} }

// Response is one that was received.
type Response struct {
	Type    Type
	Names   []string // of its resources, in order
	Removed []string
	Size    int // in bytes, as a message
	At      time.Time
}

// State is what a proxy has and was sent. It is looked at only where Client lends it.
type State struct {
	// Connected tells that there is a stream; Streams counts them.
	Connected bool
	Streams   int
	// Responses are all that came, over all streams.
	Responses []Response

	resources map[Type]map[string]resource
	domains   map[string]time.Time // of virtual hosts: when each was first there
	waits     map[Type]bool        // for the first response of this stream
	busy      bool                 // it has not asked yet for what follows
	filled    map[string]bool      // route tables of which it was sent virtual hosts, or told that there is none
}

// resource is what is kept of one.
type resource struct {
	version string
	size    int
	refers  []string // names of other resources
	domains []string // of a route table or virtual host
	routes  []string // their names, of a route table or virtual host
	vhds    bool     // a route table whose virtual hosts are resources of their own
	text    string   // of endpoints, and of a member: their addresses
}

func newState() *State {
	s := &State{
		resources: map[Type]map[string]resource{},
		domains:   map[string]time.Time{},
		waits:     map[Type]bool{},
		filled:    map[string]bool{},
	}
	for _, t := range Types() {
		s.resources[t] = map[string]resource{}
	}
	return s
}

// Names are those of the resources that the proxy has, sorted.
func (s *State) Names(t Type) []string { return slices.Sorted(maps.Keys(s.resources[t])) }

// Has tells whether it has a resource.
func (s *State) Has(t Type, name string) bool {
	_, ok := s.resources[t][name]
	return ok
}

// Versions are those of all resources, by type and name.
func (s *State) Versions() map[string]string {
	all := map[string]string{}
	for t, of := range s.resources {
		for name, r := range of {
			all[string(t)+"/"+name] = r.version
		}
	}
	return all
}

// Size is how many bytes the resources of a type have.
func (s *State) Size(t Type) (bytes int) {
	for _, r := range s.resources[t] {
		bytes += r.size
	}
	return bytes
}

// Hosts are the addresses of a cluster's endpoints, as "10.1.0.1:80", sorted and joined by spaces.
func (s *State) Hosts(cluster string) string {
	r := s.resources[Endpoint][cluster]
	if len(r.refers) == 0 {
		return r.text
	}
	var all []string
	for name, m := range s.resources[Member] {
		if slices.Contains(r.refers, collectionOf(name)) {
			all = append(all, m.text)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// collectionOf is what a client asks for to get a member.
func collectionOf(name string) string { return name[:strings.LastIndexByte(name, '/')+1] + "*" }

// Routes tells whether a route table that the proxy has holds a domain, and since when one did.
func (s *State) Routes(domain string) (time.Time, bool) {
	for r := range s.routing() {
		if slices.Contains(r.domains, domain) {
			return s.domains[domain], true
		}
	}
	return time.Time{}, false
}

// HasRoute tells whether a route table holds a route of that name: an HTTPRoute's, if it has one.
func (s *State) HasRoute(name string) bool {
	for r := range s.routing() {
		if slices.Contains(r.routes, name) {
			return true
		}
	}
	return false
}

// routing yields all that has routes: tables, and virtual hosts of tables that are there.
func (s *State) routing() iter.Seq[resource] {
	return func(yield func(resource) bool) {
		for _, r := range s.resources[Route] {
			if !yield(r) {
				return
			}
		}
		for name, r := range s.resources[VirtualHost] {
			if s.resources[Route][tableOf(name)].vhds && !yield(r) {
				return
			}
		}
	}
}

// usesVHDS tells whether the proxy has a route table whose virtual hosts are resources of their
// own.
func (s *State) usesVHDS() bool {
	for _, r := range s.resources[Route] {
		if r.vhds {
			return true
		}
	}
	return false
}

// tableOf is the table of a virtual host.
func tableOf(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// Synced tells that the proxy is connected and has an answer to all that it asked for on its
// present stream.
func (s *State) Synced() bool {
	if !s.Connected || s.busy || len(s.waits) > 0 {
		return false
	}
	for from, to := range map[Type]Type{Cluster: Endpoint, Listener: Route} {
		for _, name := range s.referred(from) {
			if !s.Has(to, name) {
				return false
			}
		}
	}
	there := map[string]bool{}
	for name := range s.resources[Member] {
		there[collectionOf(name)] = true
	}
	for _, name := range s.referred(Endpoint) {
		if !there[name] {
			return false
		}
	}
	for name, table := range s.resources[Route] {
		if table.vhds && !s.filled[name] {
			return false
		}
	}
	return true
}

// referred are the names of other resources in all resources of a type, sorted, each once.
func (s *State) referred(t Type) []string {
	var all []string
	for _, r := range s.resources[t] {
		all = append(all, r.refers...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
