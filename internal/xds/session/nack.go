package session

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// answer takes a request's ACK or NACK of an outstanding response. A nonce that is not outstanding is ignored (P12). It
// is that of the latest response in whatever a state-of-the-world client asks for later; any other has expired.
func (s *Session) answer(c *channel, req Request, now time.Time) {
	i := slices.IndexFunc(c.sent, func(r *sent) bool { return r.nonce == req.Nonce })
	if i < 0 {
		if req.Nonce != "" && req.Nonce != c.nonce(c.lastSent) {
			s.expired++
		}
		return
	}
	r, first := c.sent[i], i
	if s.opt.Protocol == StateOfTheWorld && req.VersionInfo == r.version {
		req.Nack = nil // it accepted this one; what it refused is one before, which it could not say then, and this one replaced
	}
	unread := !c.typ.Wildcard() && len(req.Names) == 0 // Envoy takes note of the nonce alone
	if s.opt.Protocol == StateOfTheWorld && req.Nack == nil && req.VersionInfo != r.version && !unread {
		return // it has read the response and says something else before it accepts or refuses it
	}
	if s.opt.Protocol == StateOfTheWorld && req.Nack == nil {
		first = 0 // such a client may answer only the last response it read
	}
	c.sent = slices.Delete(c.sent, first, i+1)
	if len(c.sent) == 0 {
		c.sent = nil // a settled session is small
		s.awaits.remove(c.typ)
	}
	if req.Nack != nil {
		c.troubled().nack = req.Nack.Message
		if r.collected {
			s.refuseCollections(r)
			return
		}
		if c.typ == resource.VirtualHost {
			s.refuseHosts(c, r, c.sent[first:])
		} else {
			s.refuse(c, r, c.sent[first:])
		}
		return
	}
	if c.typ == resource.VirtualHost && (r.retry || r.shrinks) {
		c.appeal(r)
	}
	c.lastAcked = uint32(r.number)
	c.accepted = max(c.accepted, r.generation)
	if len(c.trouble.refused) == 0 && len(c.trouble.retries) == 0 && !slices.ContainsFunc(c.sent, func(r *sent) bool { return r.retry }) && c.trouble.nack != "" {
		c.troubled().nack = ""
	}
	if r.sounding && s.trusted {
		s.sounded(r.number)
	}
	if c.typ == resource.Listener && len(r.upserts) > 0 {
		s.routesAsked = now.Add(s.opt.Hold)
	}
	if c.typ == resource.Listener && s.replaces(r) {
		s.drained = now.Add(s.opt.Drain)
	}
	s.opt.Scratch.reuse(r)
}

// replaces tells whether a response for listeners changed or removed one that the client had.
func (s *Session) replaces(r *sent) bool {
	return r.shrinks || slices.ContainsFunc(r.upserts, func(u *resource.Resource) bool {
		return !r.prior(u.Name(), &s.own).version.IsZero()
	})
}

// refuse takes a NACK. The client may have taken any part of the response, so of none of its names it is known what the
// client has. What surely caused it is quarantined; the rest is sent again, in smaller groups while the culprit is not
// known, which ends with it alone. What a newer response carries as well is left to the answer to that one.
func (s *Session) refuse(c *channel, r *sent, newer []*sent) {
	stands := func(name string) bool {
		return c.wants(name) && !carried(newer, name)
	}
	if len(r.upserts) == 0 {
		return // nothing in it can be wrong, and repeated it would be refused again
	}
	for _, name := range r.removed {
		if stands(name) {
			c.doubt(name, r.prior(name, &c.session.own), unsure)
		}
	}
	c.passOn(r, newer)
	if r.mixed {
		c.troubled().unmixed = true
	}
	guilty, innocent, groups := blame(c.trouble.nack, r.upserts)
	for _, u := range guilty {
		if stands(u.Name()) {
			c.quarantine(u, r)
		}
	}
	for _, u := range innocent {
		if stands(u.Name()) {
			c.reconsider(u, r, unsure)
		}
	}
	for _, group := range groups {
		var names []string
		for _, u := range group {
			if stands(u.Name()) && c.reconsider(u, r, retrying) {
				names = append(names, u.Name())
			}
		}
		if len(names) > 0 {
			c.troubled().retries = append(c.trouble.retries, names)
		}
	}
	if c.typ == resource.Endpoint && s.trusted {
		s.distrust() // Envoy ends all warming with this, so that the missing ACK would not tell any more
	}
	if s.opt.Protocol == StateOfTheWorld && c.typ.Wildcard() {
		c.troubled().shaken = slices.Concat(c.trouble.shaken, r.shaken, r.upserts)
		c.owed = len(c.trouble.retries) == 0 && len(newer) == 0
	}
}

// passOn tells the newer responses what the client had before the refused one, where they think that it had that. Where all that they
// say of a name are heads and members, the client has those on top of whatever it had, and needs a list, with which it is also found
// out what it refuses.
func (c *channel) passOn(r *sent, newer []*sent) {
	for _, u := range r.upserts {
		i := slices.IndexFunc(newer, func(n *sent) bool { return n.carries(u.Name()) })
		if i < 0 {
			continue
		}
		newer[i].retry = true
		if newer[i].prior(u.Name(), &c.session.own).version == c.session.own.Version(u) {
			newer[i].remember(u.Name(), r.prior(u.Name(), &c.session.own).or(c.session.own.Version(u)))
		}
		if c.wants(u.Name()) && !spelledOut(newer, u.Name()) {
			c.doubt(u.Name(), r.prior(u.Name(), &c.session.own).or(anything), unsure)
		}
	}
}

// quarantine keeps the version from this client until the class has another. The client keeps what it had before; a
// partial NACK leaves that in use.
func (c *channel) quarantine(u *resource.Resource, r *sent) {
	name, version, h := u.Name(), c.session.own.Version(u), r.prior(u.Name(), &c.session.own)
	if h.version == version { // sent before, and not accepted then either
		h = holding{maybe: anything}
	}
	// Of endpoints that it reported and that cannot be sent again, a new form of the cluster may have none.
	certain := c.typ != resource.Endpoint && (h.maybe.IsZero() || h.maybe == version)
	current := c.set.Get(name)
	switch {
	case current == nil && c.isStandIn(u):
		c.held.forget(name) // there is nothing else to try
		return
	case current == nil || c.session.own.Version(current) != version:
		c.doubt(name, h, unsure)
		return
	case c.typ == resource.Endpoint && (h.resource != nil || h.version.IsZero()):
		c.doubt(name, h, asked) // the refused ones may have been for a new form of the cluster, which now has none
	case certain:
		h.maybe = resource.Version{}
		c.doubt(name, h, sure)
	default:
		c.doubt(name, h, unsure)
	}
	t := c.troubled()
	if t.refused == nil {
		t.refused = map[string]resource.Version{}
	}
	t.refused[name] = version
}

// reconsider notes that the client may or may not have taken the resource, and tells whether it may be sent again with
// its group: what has changed since goes its normal way.
func (c *channel) reconsider(u *resource.Resource, r *sent, d doubt) bool {
	name := u.Name()
	h := r.prior(name, &c.session.own).or(c.session.own.Version(u))
	current := c.set.Get(name)
	if current != nil && c.session.own.Version(current) == c.session.own.Version(u) {
		c.doubt(name, h, d)
		return true
	}
	switch {
	case current != nil || !c.isStandIn(u):
		c.doubt(name, h, unsure)
	case r.retry:
		c.held.forget(name)
	default:
		c.doubt(name, h, asked)
	}
	return false
}

// doubt notes what the client had before a response, and how far that is still known.
func (c *channel) doubt(name string, h holding, d doubt) {
	h.doubt = d
	c.held.note(name, h)
}

func carried(by []*sent, name string) bool {
	return slices.ContainsFunc(by, func(r *sent) bool { return r.carries(name) })
}

// spelledOut tells whether one of the responses says what the client is to have of the name, whatever it had before.
func spelledOut(by []*sent, name string) bool {
	return slices.ContainsFunc(by, func(r *sent) bool { return !r.collected && r.carries(name) })
}

func (c *channel) isStandIn(u *resource.Resource) bool {
	stand := c.standIn(u.Name())
	return stand != nil && stand.Version() == u.Version()
}

// retry takes the next group of names that are sent again by themselves.
func (c *channel) retry() batch {
	t := c.troubled()
	group := t.retries[0]
	t.retries = t.retries[1:]
	if len(t.retries) == 0 {
		t.retries = nil
	}
	b := batch{from: c.held.base, retry: true}
	for _, name := range group {
		if h := c.held.except[name]; h.doubt == retrying {
			h.doubt = unsure
			c.held.note(name, h)
			c.apply(&b, name)
		}
	}
	slices.SortFunc(b.others, byName)
	return b
}
