package session

import (
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/view"
)

// Options configure a Session.
type Options struct {
	Protocol Protocol
	// Differ is required. Sessions that share it share the differences of their sets.
	Differ *view.Differ

	// Hold is the longest that listeners and routes wait for the ACK of the clusters they may name, and removals, once
	// those are sent, for the ACK of what no longer names them. Zero means DefaultHold.
	Hold time.Duration
	// Drain is how long a replaced or removed listener goes on serving with its old configuration after its ACK, which
	// is the proxy's own drain time; removals wait so much longer.
	Drain time.Duration
	// MaxBytes splits responses whose resources add up to more, for clients with a limit on message size; zero means
	// never. One resource and a full state-of-the-world response are never split.
	MaxBytes int
	// Distrust are names of which a client's reported versions do not count, nor their absence, from Session.Distrusted of
	// the same proxy's stream before.
	Distrust [view.NumTypes]map[string]struct{}
}

// DefaultHold outlasts the warming of clusters, other than those that will never be warm.
const DefaultHold = 10 * time.Second

// maxOutstanding is how many responses of one type may be without an answer. Then the session sends no more of that type
// until the client answers; what changes meanwhile waits as a difference, and only the newest state is sent.
const maxOutstanding = 32

// Session is the protocol state of one stream. It is not safe for concurrent use.
type Session struct {
	opt      Options
	own      view.Own
	state    *view.State // nil before the first Update
	channels [view.NumTypes]channel
	nonces   uint64

	dependants hold // listeners and routes, for the ACK of clusters
	removals   hold // what is removed, for the ACK of listeners and routes

	paced   time.Time // when a full response goes that waits for the answer to the one before
	drained time.Time // when the listeners that were replaced last will have drained
	// routesAsked is until when the client may still ask for routes that its newest listeners name: Envoy ACKs a listener at
	// once, then asks, and until they are there the old listener goes on with the old routes.
	routesAsked time.Time
	opened      time.Time // first request for clusters
	reconciled  bool      // a new stream's listeners and routes have been brought up to date once
	// returns tells that the client has a stream behind it and asks for clusters later. Envoy asks for them first, unless one
	// of them warms, with whose endpoints that ends.
	returns bool

	// warming are clusters whose endpoints the client's next request for endpoints must be answered with. On a delta stream
	// these are the ones sent before its first, which may report the right version (P10); in state of the world all that were
	// sent since its last (P11).
	warming warming

	// trusted tells that the client was not sent endpoints that it reported to have, see rescue.
	trusted bool

	acked   uint64
	expired uint64
}

// New returns the session of a stream that has just been opened.
func New(o Options) *Session {
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	s := &Session{opt: o}
	for t := range s.channels {
		c := &s.channels[t]
		c.typ, c.session, c.trouble = view.Type(t), s, none
		c.set, c.sub.base, c.held.base = view.Empty(), view.Empty(), view.Empty()
	}
	return s
}

// Request takes a request from the client.
func (s *Session) Request(req Request, now time.Time) []Response {
	t, ok := view.TypeByURL(req.TypeURL)
	if !ok {
		return s.unknown(req)
	}
	c := &s.channels[t]
	if t == view.Cluster && s.opened.IsZero() {
		s.opened = now
		s.warming.all = len(req.InitialVersions) == 0
	}
	if s.opened.IsZero() && !c.started && (req.VersionInfo != "" || len(req.InitialVersions) > 0) {
		s.returns = true
	}
	if s.opt.Protocol == StateOfTheWorld {
		s.requestSotw(c, req, now)
	} else {
		s.requestDelta(c, req, now)
	}
	return s.advance(now)
}

// Update takes the newest State of the proxy's class, or the State of its new class, and the proxy's own addresses.
func (s *Session) Update(state *view.State, own view.Own, now time.Time) []Response {
	if own != s.own {
		s.readdress(own)
	}
	s.state = state
	for t := range s.channels {
		c := &s.channels[t]
		c.set = state.Sets[t]
		if c.started {
			c.sub.settle(s.opt.Differ, c.typ, c.set)
		}
		for name, v := range c.trouble.refused {
			if r := c.set.Get(name); r == nil || c.session.own.Version(r) != v {
				delete(c.trouble.refused, name)
			}
		}
		if c.trouble.refused != nil && len(c.trouble.refused) == 0 {
			c.troubled().refused = nil // a map keeps the size that it once had
		}
	}
	s.warming.settle(state.Sets[view.Cluster])
	return s.advance(now)
}

// Tick lets pass what has waited long enough.
func (s *Session) Tick(now time.Time) []Response { return s.advance(now) }

// NextTick is when Tick should be called next; false when nothing waits for a time.
func (s *Session) NextTick() (time.Time, bool) {
	next := s.dependants.until
	for _, at := range []time.Time{s.removals.until, s.rescueAt(), s.paced} {
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next, !next.IsZero()
}

// State is what the session brings the client to, nil before the first Update.
func (s *Session) State() *view.State { return s.state }

// Own are the proxy's own addresses.
func (s *Session) Own() view.Own { return s.own }

// readdress notes under the old addresses what the client holds, so that it counts as changed. It walks all resources;
// addresses hardly ever change on a live stream.
func (s *Session) readdress(own view.Own) {
	for t := range s.channels {
		c := &s.channels[t]
		for r := range c.held.base.All() {
			if _, ok := c.held.except[r.Name()]; r.IsOwn() && !ok && c.sub.has(r.Name()) {
				c.held.note(r.Name(), holding{version: s.own.Version(r), resource: r})
			}
		}
	}
	s.own = own
}

// unknown answers a request for a type that is not served, so that the client does not wait; there is nothing to remember,
// and its ACK needs no answer (P21).
func (s *Session) unknown(req Request) []Response {
	if req.Nonce != "" {
		return nil
	}
	return []Response{{Unknown: req.TypeURL, Nonce: s.nonce("x")}}
}

// nonce is unique on the stream; the letter tells people the type.
func (s *Session) nonce(letter string) string {
	s.nonces++
	return letter + strconv.FormatUint(s.nonces, 36)
}
