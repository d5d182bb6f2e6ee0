package session

import (
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// requestSotw takes a DiscoveryRequest. It states the whole subscription; only the one that answers the latest response, or
// none, is read, because another one that answers the latest is on its way (P12).
func (s *Session) requestSotw(c *channel, req Request, now time.Time) {
	s.answer(c, req, now)
	first := !c.started
	if !first && req.Nonce != "" && req.Nonce != c.nonce(c.lastSent) {
		return
	}
	c.started = true
	if first && req.VersionInfo != "" && !strings.HasSuffix(req.VersionInfo, mark) {
		s.marked.add(c.typ)
	}
	if d := digestOf(req.Names); first || d != *c.digest {
		c.digest = &d
		s.restate(c, req.Names, first)
	} else if req.Nonce == "" && c.lastSent != 0 {
		s.askAll(c) // it forgot what it was sent
	}
	s.again(c, first)
}

// versionOf is the version of a response. An ACK is told from a refusal and from other requests by it, so no two responses have the
// same: not those of a stream, and since nonces begin anew on the next, on that one not the version that the client brought along.
func (c *channel) versionOf(nonce string) string {
	v := c.set.Root().String() + "/" + nonce
	if c.session.marked.has(c.typ) {
		v += mark
	}
	return v
}

// mark ends the versions of a stream to which the client brought one without.
const mark = "'"

// restate makes the names the subscription. No names at first are a wildcard, for types that have one; later they are none.
func (s *Session) restate(c *channel, names []string, first bool) {
	all := c.typ.Wildcard() && (slices.Contains(names, wildcard) || first && len(names) == 0)
	switch {
	case all && !c.sub.all:
		s.subscribeAll(c)
	case !all && c.sub.all:
		s.unsubscribeAll(c)
	}
	wanted := make(map[string]struct{}, len(names))
	for _, name := range names {
		wanted[name] = struct{}{}
	}
	var gone []string
	c.sub.each(func(name string) {
		if _, ok := wanted[name]; !ok {
			gone = append(gone, name)
		}
	})
	s.unsubscribe(c, gone)
	for _, name := range names {
		if name != wildcard && c.sub.add(name) && !c.sub.all {
			c.ask(name, false)
		}
	}
	c.owed = c.typ.Wildcard() // whatever changed: the answer is all there is
	c.sub.settle(s.opt.Differ, c.typ, c.set)
}

// again answers a request that follows a response of the type that this one hangs on, even if it looks like a plain ACK: a
// cluster or listener that changed asks anew for what it hangs on, with the names that were there before (P11).
func (s *Session) again(c *channel, first bool) {
	switch {
	case first && c.typ == resource.Endpoint:
		s.warming = warming{} // all is answered anyway
	case c.typ == resource.Endpoint:
		s.rewarm(c)
	case c.typ == resource.Route && c.replay && !first:
		s.askAll(c)
	}
	c.replay = false
}

func (s *Session) askAll(c *channel) {
	c.owed = c.typ.Wildcard()
	c.sub.each(func(name string) { c.ask(name, true) })
}

// suspect adds to a full response's changes those of the responses before it that are not answered: it states them again,
// so they may be why it is refused.
func (c *channel) suspect(r *sent, list []*resource.Resource) {
	for _, earlier := range c.sent {
		var more []*resource.Resource
		for _, u := range earlier.upserts {
			name := u.Name()
			if again := find(list, name); again != nil && find(r.upserts, name) == nil {
				more = append(more, again)
				h := earlier.prior(name, &c.session.own)
				if c.session.own.Version(u) != c.session.own.Version(again) {
					h = h.or(c.session.own.Version(u))
				}
				r.remember(name, h)
			}
		}
		r.upserts = merge(r.upserts, more)
	}
}

// full is all that the client is to have of a type of which absence removes (P16): what the class has, but for what the
// client refused or is to get later, for which it keeps the old one; and what is still to be removed later. It is the
// class's own list where there are no exceptions.
func (c *channel) full(d *resource.Differ) (*resource.Change, []*resource.Resource) {
	if c.sub.all && len(c.held.except) == 0 {
		change := d.Diff(c.typ, resource.Empty(), c.set)
		return change, change.Upserts
	}
	var list []*resource.Resource
	for r := range c.set.All() {
		if !c.wants(r.Name()) {
			continue
		}
		if h, ok := c.held.except[r.Name()]; ok {
			r = h.resource
		}
		if r != nil {
			list = append(list, r)
		}
	}
	for name, h := range c.held.except {
		if h.resource != nil && c.set.Get(name) == nil {
			list = append(list, h.resource)
		}
	}
	slices.SortFunc(list, byName)
	return nil, list
}
