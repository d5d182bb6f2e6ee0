package session

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// What refers to something that the client refused, and of which it has nothing older, is withheld from that client (P15):
// with it, the client would give up what works for what cannot. Withheld is as little as can be, since what is withheld is
// behind, and others depend on it: of a route table the virtual hosts that refer to it, of listeners the whole one. In
// their place the client keeps what it has, as long as that is sound, which is to say that everything it refers to is still
// there. What the client has nothing older of is sent: a new virtual host whose cluster is missing answers 503 for itself
// alone. The exception is a new listener whose route table is the missing one: it would answer 404 to everything.
//
// It ends with the quarantine, or with the soundness of the old. Nothing of this is looked at, and nothing kept, unless
// something is quarantined.

// short tells whether there may be something that the client lacks.
func (s *Session) short() bool {
	return slices.ContainsFunc([]resource.Type{resource.Cluster, resource.Endpoint, resource.Route}, func(t resource.Type) bool {
		return len(s.channels[t].trouble.refused) > 0
	})
}

// instead is what the client gets in place of a resource of its class that it would take: mostly that one; what it holds,
// or a table that is partly that, if it lacks what the resource needs; nil if it has nothing older and should have nothing.
func (c *channel) instead(r *resource.Resource, h holding) *resource.Resource {
	s := c.session
	if c.typ != resource.Listener && c.typ != resource.Route && c.typ != resource.VirtualHost || !s.short() {
		return r
	}
	old := h.resource
	if old != nil && r.VirtualHosts() != nil {
		if c.trouble.unmixed {
			return r
		}
		return s.opt.Differ.Keeping(r, old, func(older, newer *resource.Resource) bool { return s.crippled(newer) && s.sound(older) })
	}
	switch {
	case !s.crippled(r):
	case c.typ == resource.VirtualHost && old != nil && !resource.SameDomains(old, r):
	case old != nil && !c.isStandIn(old) && s.sound(old):
		return old
	case h.version.IsZero() && s.lacksTable(r):
		return nil
	}
	return r
}

// withholds tells whether the client is to keep something older under the name, whole or in part.
func (c *channel) withholds(name string, h holding) bool {
	r := c.set.Get(name)
	return r != nil && !c.refuses(r) && c.wants(name) && c.instead(r, h) != r
}

// crippled tells whether the resource needs something that the client lacks.
func (s *Session) crippled(r *resource.Resource) bool {
	for name := range r.Refs().Clusters.All() {
		if s.lacksCluster(name) {
			return true
		}
	}
	return s.lacksTable(r)
}

func (s *Session) lacksTable(listener *resource.Resource) bool {
	for name := range listener.Refs().Routes.All() {
		if s.channels[resource.Route].lacks(name) {
			return true
		}
	}
	return false
}

// lacksCluster tells the same of a cluster, which is no better without its endpoints.
func (s *Session) lacksCluster(name string) bool {
	return s.channels[resource.Cluster].lacks(name) || s.channels[resource.Endpoint].lacks(name)
}

// sound tells whether all that the resource needs is there, for the class and for the client. A cluster that the class has no
// more is about to go: what still names it must not be kept for it, or would keep its endpoints from going.
func (s *Session) sound(r *resource.Resource) bool {
	for name := range r.Refs().Clusters.All() {
		if s.channels[resource.Cluster].set.Get(name) == nil {
			return false
		}
	}
	for name := range r.Refs().Routes.All() {
		if s.channels[resource.Route].set.Get(name) == nil {
			return false
		}
	}
	return !s.crippled(r)
}

// lacks tells whether the client refused what the class has under the name, and has nothing older.
func (c *channel) lacks(name string) bool {
	if _, ok := c.trouble.refused[name]; !ok {
		return false
	}
	if r := c.set.Get(name); r == nil || !c.refuses(r) {
		return false
	}
	h := c.held.except[name]
	stand := c.standIn(name)
	return h.version.IsZero() || stand != nil && h.version == stand.Version()
}
