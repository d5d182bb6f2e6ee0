package session

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// requestDelta takes a DeltaDiscoveryRequest. It may ACK or refuse a response and change the subscription at once (P13); a
// nonce that is not outstanding does neither harm nor good (P12).
func (s *Session) requestDelta(c *channel, req Request, now time.Time) {
	s.answer(c, req, now) // first: what was offered and not subscribed to by now was dropped, see subscribe
	if !c.started {
		c.started = true
		if req.reports() {
			s.drained = now.Add(s.opt.Drain) // a listener that was replaced on its last stream may not have drained yet
		}
		s.open(c, req)
	} else {
		req = req.unfolded()
		s.subscribe(c, req.Subscribe, nil)
		s.unsubscribe(c, req.Unsubscribe)
	}
	if req.subscribes() || len(req.Unsubscribe) > 0 {
		c.sub.settle(s.opt.Differ, c.typ, c.set)
	}
}

// open takes a stream's first request of a type. Without names it is a wildcard, for types that have one (P1). What the
// client holds from an earlier stream counts now and never again (P8).
func (s *Session) open(c *channel, req Request) {
	c.owed = c.typ.Wildcard() && !req.subscribes()
	if !s.openAt(c, &req) {
		s.openBy(c, req.unfolded())
	}
	for name := range s.distrusts(c.typ) {
		if c.wants(name) {
			c.held.note(name, holding{doubt: unsure, maybe: anything})
		}
	}
	if c.typ == resource.VirtualHost {
		s.openHosts(c)
	}
	if c.typ == resource.Endpoint {
		s.trusted = req.reports()
		if s.returns && s.opened.IsZero() {
			s.distrust() // a cluster warms, and waits for endpoints that it reports to have
		}
		s.rewarm(c)
	}
}

// openBy takes such a request name by name.
func (s *Session) openBy(c *channel, req Request) {
	c.sub.all = c.owed
	if c.typ == resource.Route && s.pieces && hasWholeTables(req.InitialVersions) {
		s.serveWhole()
	}
	s.subscribe(c, req.Subscribe, req.InitialVersions)
	s.unsubscribe(c, req.Unsubscribe)
	for name, v := range req.InitialVersions {
		c.report(name, v)
	}
}

// report notes what the client says it has under a name.
func (c *channel) report(name, version string) {
	if !c.wants(name) && c.typ != resource.VirtualHost {
		return
	}
	h := reported(version)
	if c.typ == resource.Endpoint {
		h = c.session.collections.resume(name, h)
	}
	c.held.note(name, h)
}

// reported is what a client says it holds. A version of another control plane says only that there is something.
func reported(version string) holding {
	if v, ok := resource.ParseVersion(version); ok {
		return holding{version: v}
	}
	return holding{doubt: unsure, maybe: anything}
}

// subscribe adds names. Each is answered, whatever the client holds (P3), but for those that it reports to hold, and those
// offered to it with their cluster a moment ago.
func (s *Session) subscribe(c *channel, names []string, reported map[string]string) {
	for _, name := range names {
		if name == wildcard {
			s.subscribeAll(c)
			continue
		}
		was := c.sub.has(name)
		c.sub.add(name)
		if c.typ == resource.Route && !was {
			s.meetHosts(name)
		}
		if _, ok := reported[name]; ok {
			continue
		}
		if r := c.offered(name); r != nil && !was {
			c.holds(r)
			continue
		}
		c.ask(name, was)
	}
}

// holds notes that the client has exactly this under a name.
func (c *channel) holds(r *resource.Resource) {
	if c.held.base.Get(r.Name()) == r {
		c.held.forget(r.Name())
		return
	}
	c.held.note(r.Name(), holding{version: c.session.own.Version(r), resource: r})
}

// subscribeAll turns the wildcard on (P2). All is sent that the client does not hold by name; if it had the wildcard
// before, all is sent again, because it may have dropped everything in between.
func (s *Session) subscribeAll(c *channel) {
	if !c.typ.Wildcard() {
		return
	}
	c.owed = true
	if c.sub.all {
		c.held.base = resource.Empty()
		for name, h := range c.held.except {
			if h.doubt == sure {
				h.doubt = unsure
				c.held.except[name] = h
			}
		}
		return
	}
	c.sub.each(func(name string) {
		if _, ok := c.held.except[name]; ok {
			return
		}
		if r := c.held.base.Get(name); r != nil {
			c.held.note(name, holding{version: c.session.own.Version(r), resource: r})
		}
	})
	c.held.base = resource.Empty()
	c.sub.all = true
}

// unsubscribe takes names away. Of a name that the wildcard still covers, the client is told what there is (P4); of one
// that it never had, nothing (P5).
func (s *Session) unsubscribe(c *channel, names []string) {
	for _, name := range names {
		if name == wildcard {
			s.unsubscribeAll(c)
			continue
		}
		was := c.sub.remove(name)
		if c.typ == resource.Endpoint && c.offered(name) == nil {
			s.collections.drop(name)
		}
		if c.typ == resource.Route && was {
			s.leaveHosts(name)
		}
		switch {
		case !c.sub.all:
			c.held.forget(name)
		case was || c.set.Get(name) != nil:
			c.ask(name, true)
		}
	}
}

func (s *Session) unsubscribeAll(c *channel) {
	c.sub.all, c.owed = false, false
	for _, name := range c.held.names() {
		if !c.wants(name) {
			c.held.forget(name)
		}
	}
}

// ask notes that the client waits for an answer under the name. Held tells that it was subscribed to before, so that what it
// has is known.
func (c *channel) ask(name string, held bool) {
	h, exception := c.held.except[name]
	if h.doubt == retrying {
		return // its group is the answer
	}
	if held && !exception {
		if r := c.held.base.Get(name); r != nil {
			h = holding{version: c.session.own.Version(r), resource: r}
		}
	}
	h.doubt = asked
	c.held.note(name, h)
	c.session.stir(c.typ) // it may be about another type
}

// offered is the resource last sent under a name that the client had not subscribed to, as long as it has not ACKed that
// response. Envoy subscribes to a new cluster's endpoints while it reads the cluster, then reads the endpoints
// sent behind it, and ACKs those last; so a subscription that comes before the ACK found the offer, and is no question. One that comes
// after it, or with it, is: Envoy drops endpoints that no cluster waits for yet.
func (c *channel) offered(name string) *resource.Resource {
	if r := c.offering(name); r != nil {
		return find(r.upserts, name)
	}
	return nil
}

// offering is the response that offered was sent in.
func (c *channel) offering(name string) *sent {
	for _, r := range slices.Backward(c.sent) {
		if find(r.offered, name) != nil && find(r.upserts, name) != nil {
			return r
		}
	}
	return nil
}

// warming is a set of clusters, or all of them when it would be large. The zero value is empty.
type warming struct {
	all   bool
	names map[string]struct{}
}

const maxWarming = 1024

func (w *warming) add(name string) {
	if w.all {
		return
	}
	w.names = with(w.names, name)
	if len(w.names) > maxWarming {
		*w = warming{all: true}
	}
}

// settle forgets clusters that are no more.
func (w *warming) settle(clusters *resource.Set) {
	for name := range w.names {
		if clusters.Get(name) == nil {
			w.names = without(w.names, name)
		}
	}
}

// oblige sees to it that the clusters' endpoints go out behind them, changed or not: a cluster that changes warms again and
// wants its endpoints again, without a word (P10). It returns those that the client does not subscribe to yet, to be sent
// as well, which saves a round trip.
//
// Only a client that has opened the type on this stream is offered anything: before, an Envoy that refuses the clusters would
// subscribe to nothing of the type, and drops such a response without an answer.
func (s *Session) oblige(clusters []emitted) []*resource.Resource {
	c := &s.channels[resource.Endpoint]
	sotw := s.opt.Protocol == StateOfTheWorld
	if len(clusters) == 0 || !c.started && s.warming.all {
		return nil
	}
	var offers []*resource.Resource
	for _, sent := range clusters {
		for _, cluster := range slices.Concat(sent[0], sent[1]) {
			name := cluster.Name()
			r := c.set.Get(name)
			switch {
			case r == nil && c.sub.has(name) && s.channels[resource.Cluster].set.Get(name) == nil:
				c.ask(name, true) // only a full list repeats a cluster that is about to go
			case r == nil: // no endpoints of its own: not an EDS cluster
			case !c.started:
				s.warming.add(name)
			case c.sub.has(name):
				c.ask(name, true)
				if sotw {
					s.warming.add(name) // P11
				}
			case !sotw && !c.refuses(r):
				offers = append(offers, r)
			}
		}
	}
	slices.SortFunc(offers, byName)
	return offers
}

// rewarm answers the client's request for endpoints with those of clusters that were sent before it.
func (s *Session) rewarm(c *channel) {
	if s.warming.all {
		c.sub.each(func(name string) { c.ask(name, true) })
	}
	for name := range s.warming.names {
		if c.sub.has(name) {
			c.ask(name, true)
		}
	}
	s.warming = warming{}
}
