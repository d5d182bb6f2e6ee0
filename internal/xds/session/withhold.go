package session

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A resource is withheld from a client (P15) if it refers to something that the client refused and
// has nothing older of: with it, the client would replace what works by what cannot. As little as
// possible is withheld, since what is withheld is outdated and others depend on it: of a route
// table the virtual hosts that refer to it, of listeners the whole listener. In their place the
// client keeps what it has, as long as everything that this refers to is still there. If the client
// has nothing older, the new resource is sent: a new virtual host whose cluster is missing answers
// 503 for itself alone. The exception is a new listener whose route table is missing: it would
// answer 404 to everything.
//
// It ends with the quarantine, or when something that the older resource refers to goes. Without a
// quarantine none of this is looked at, and nothing is kept for it.

// mayLackRefs reports whether the client may lack something that others refer to.
func (s *Session) mayLackRefs() bool {
	referredTo := []resource.Type{resource.Cluster, resource.Endpoint, resource.Route}
	return slices.ContainsFunc(referredTo, func(t resource.Type) bool {
		return len(s.of(t).nacks.quarantined) > 0
	})
}

// substitute returns what the client gets in place of a resource of its class that is not
// quarantined. Mostly that is the resource itself. If the client lacks what the resource needs, it
// is what the client holds, or a table that is partly that. It is nil if the client has nothing
// older and should have nothing.
func (ts *typeState) substitute(r *resource.Resource, h holding) *resource.Resource {
	s := ts.session
	if ts.typ != resource.Listener && ts.typ != resource.Route && ts.typ != resource.VirtualHost || !s.mayLackRefs() {
		return r
	}
	old := h.resource
	if old != nil && r.VirtualHosts() != nil {
		if ts.nacks.noMixedTables {
			return r
		}
		return s.opt.Differ.WithOlderHosts(r, old, func(older, newer *resource.Resource) bool {
			return s.hasMissingRefs(newer) && s.hasAllRefs(older)
		})
	}
	switch {
	case !s.hasMissingRefs(r):
	case ts.typ == resource.VirtualHost && old != nil && !resource.SameDomains(old, r):
	case old != nil && !ts.isEmptyResource(old) && s.hasAllRefs(old):
		return old
	case h.version.IsZero() && s.lacksTable(r):
		return nil
	}
	return r
}

// withholds reports whether the client keeps something older under the name, in part or as a whole.
func (ts *typeState) withholds(name string, h holding) bool {
	r := ts.set.Get(name)
	return r != nil && !ts.refuses(r) && ts.wants(name) && ts.substitute(r, h) != r
}

// hasMissingRefs reports whether a resource refers to a cluster or route table that the client has
// refused.
func (s *Session) hasMissingRefs(r *resource.Resource) bool {
	for name := range r.Refs().Clusters.All() {
		if s.lacksCluster(name) {
			return true
		}
	}
	return s.lacksTable(r)
}

// lacksTable reports whether the client has refused a route table of the listener.
func (s *Session) lacksTable(listener *resource.Resource) bool {
	for name := range listener.Refs().Routes.All() {
		if s.types[resource.Route].lacks(name) {
			return true
		}
	}
	return false
}

// lacksCluster reports whether the client has refused a cluster, or its endpoints, without which it
// is no better.
func (s *Session) lacksCluster(name string) bool {
	return s.types[resource.Cluster].lacks(name) || s.types[resource.Endpoint].lacks(name)
}

// hasAllRefs reports whether all that the resource refers to is there, for the class and for the
// client. A cluster that the class has no more is about to be removed. What still names it must not
// be kept, or it would keep the cluster's endpoints from being removed.
func (s *Session) hasAllRefs(r *resource.Resource) bool {
	for name := range r.Refs().Clusters.All() {
		if s.types[resource.Cluster].set.Get(name) == nil {
			return false
		}
	}
	for name := range r.Refs().Routes.All() {
		if s.types[resource.Route].set.Get(name) == nil {
			return false
		}
	}
	return !s.hasMissingRefs(r)
}

// lacks reports whether the client refused what the class has under the name, and has nothing
// older.
func (ts *typeState) lacks(name string) bool {
	if _, ok := ts.nacks.quarantined[name]; !ok {
		return false
	}
	if r := ts.set.Get(name); r == nil || !ts.refuses(r) {
		return false
	}
	h := ts.held.exceptions[name]
	stand := ts.emptyResource(name)
	return h.version.IsZero() || stand != nil && h.version == stand.Version()
}
