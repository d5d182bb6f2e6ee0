package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// A push is of one type, mostly, and so is its ACK, while a session has seven channels, each of several cache lines that nobody else
// has looked at since the push before. With thousands of sessions that is what a push costs. So a session knows of which types nothing
// is to be done, and leaves their channels alone.

// typeSet is a set of types, one bit for each.
type typeSet uint8

const _ = typeSet(1 << (resource.NumTypes - 1)) // all have one

func (s typeSet) has(t resource.Type) bool { return s&(1<<t) != 0 }

func (s *typeSet) add(t resource.Type) { *s |= 1 << t }

func (s *typeSet) remove(t resource.Type) { *s &^= 1 << t }

// stir has a type looked at that was still.
func (s *Session) stir(t resource.Type) { s.still.remove(t) }

// stirAll has all looked at, after an event that may be about any of them.
func (s *Session) stirAll() { s.still = 0 }

// isStill tells whether nothing is to be done of a type until it is stirred: the client has, or is on its way to, exactly what it
// should, and refusals left nothing behind. Due and later are what outlook says.
func (c *channel) isStill(due, later bool) bool {
	return !due && !later && c.trouble == none && len(c.held.except) == 0
}

// outlook tells of a type whether there is something to send now, and something to remove later.
func (s *Session) outlook(t resource.Type) (due, removals bool) {
	if s.still.has(t) {
		return false, false
	}
	return s.channels[t].outlook()
}

// acknowledges tells that a request does nothing but accept a response: it concerns no other type, unless answer says so.
func (s *Session) acknowledges(c *channel, req *Request) bool {
	return s.opt.Protocol == Delta && c.started && req.Nonce != "" && req.Nack == nil && req.Lists == nil &&
		len(req.Subscribe)+len(req.Unsubscribe)+len(req.InitialVersions) == 0
}

// keeps tells that a type is still and that another state has the same of it.
func (s *Session) keeps(t resource.Type, before, after resource.State) bool {
	return s.still.has(t) && before.Set(t) == after.Set(t) &&
		(t != resource.Route || s.pieces || before.Set(resource.VirtualHost) == after.Set(resource.VirtualHost)) // which a whole table is made of, too
}
