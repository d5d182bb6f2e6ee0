package session

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Options configure a Session.
type Options struct {
	Protocol Protocol
	// Differ is required. Sessions that share it share the differences of their sets.
	Differ *resource.Differ
	// Scratch, unless it is nil, is what this session borrows from.
	Scratch *Scratch

	// Hold is the longest that listeners and routes wait for the ACK of the clusters they may name, and removals, once
	// those are sent, for the ACK of what no longer names them. Zero means DefaultHold.
	Hold time.Duration
	// Drain is how long a replaced or removed listener goes on serving with its old configuration after its ACK, which
	// is the proxy's own drain time; removals wait so much longer.
	Drain time.Duration
	// MaxBytes splits responses whose resources add up to more, for clients with a limit on message size; zero means
	// never. One resource and a full state-of-the-world response are never split.
	MaxBytes int
	// VirtualHosts tells that the client speaks VHDS, as Envoy does: it gets route tables in pieces, on a delta stream. See hosts.go.
	VirtualHosts bool
	// Collections is the number of endpoints from which on the client, which must speak LEDS, gets them as collections, on a delta
	// stream; zero means never. See collections.go.
	Collections int
	// Distrust are names of which a client's reported versions do not count, nor their absence, from Session.Distrusted of
	// the same proxy's stream before.
	Distrust [resource.NumTypes]map[string]struct{}
}

// lasting are the Options that a session needs as long as it lives.
type lasting struct {
	Protocol    Protocol
	MaxBytes    int32 // here, where a word has room for both: elsewhere it would take one of its own
	Differ      *resource.Differ
	Scratch     *Scratch
	Hold, Drain time.Duration
}

// DefaultHold outlasts the warming of clusters, other than those that will never be warm.
const DefaultHold = 10 * time.Second

// maxOutstanding is how many responses of one type may be without an answer. Then the session sends no more of that type
// until the client answers; what changes meanwhile waits as a difference, and only the newest state is sent.
const maxOutstanding = 32

// Session is the protocol state of one stream. It is not safe for concurrent use.
type Session struct {
	opt   lasting
	own   resource.Overlay
	state resource.State // none before the first Update

	// These bytes stand together: apart from each other they would take 128 more.

	still      typeSet // types of which nothing is to be done, see still.go
	awaits     typeSet // types with responses that the client has not answered
	marked     typeSet // state of the world: types whose responses have versions with a mark, see versionOf
	begun      bool    // the client has asked for something that is served
	reconciled bool    // a new stream's listeners and routes have been brought up to date once
	pieces     bool    // the client's route tables are heads, and their virtual hosts resources of their own
	// returns tells that the client has a stream behind it and asks for clusters later. Envoy asks for them first, unless one
	// of them warms, with whose endpoints that ends.
	returns bool
	// trusted tells that the client was not sent endpoints that it reported to have, see emission.rescue.
	trusted bool

	doubted *[resource.NumTypes]map[string]struct{} // Options.Distrust, nil for none
	nonces  uint64
	// fresh are tables whose heads were sent to a client that may not have their virtual hosts, before it asked for any.
	fresh map[string]struct{}

	dependants hold // listeners and routes, for the ACK of clusters
	removals   hold // what is removed, for the ACK of listeners and routes

	paced   time.Time // when a full response goes that waits for the answer to the one before
	drained time.Time // when the listeners that were replaced last will have drained
	// routesAsked is until when the client may still ask for routes that its newest listeners name: Envoy ACKs a listener at
	// once, then asks, and until they are there the old listener goes on with the old routes.
	routesAsked time.Time
	opened      time.Time // first request for clusters
	// collections are what the client has in that form.
	collections collections

	// warming are clusters whose endpoints the client's next request for endpoints must be answered with. On a delta stream
	// these are the ones sent before its first, which may report the right version (P10); in state of the world all that were
	// sent since its last (P11).
	warming warming

	acked   uint64
	expired uint64

	channels [resource.NumTypes]channel
}

// New returns the session of a stream that has just been opened.
func New(o Options) *Session {
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	s := &Session{
		opt: lasting{
			Protocol: o.Protocol, Differ: o.Differ, Scratch: o.Scratch, Hold: o.Hold, Drain: o.Drain, MaxBytes: int32(min(o.MaxBytes, math.MaxInt32)),
		},
		pieces: o.VirtualHosts && o.Protocol == Delta,
	}
	if o.Protocol == Delta {
		s.collections.from = int32(min(o.Collections, math.MaxInt32))
	}
	if slices.ContainsFunc(o.Distrust[:], func(names map[string]struct{}) bool { return len(names) > 0 }) {
		doubted := o.Distrust
		s.doubted = &doubted
	}
	for t := range s.channels {
		c := &s.channels[t]
		c.typ, c.session, c.trouble = resource.Type(t), s, none
		c.set, c.sub.base, c.held.base = resource.Empty(), resource.Empty(), resource.Empty()
	}
	return s
}

// Request takes a request from the client.
func (s *Session) Request(req Request, now time.Time) []Response {
	t, ok := resource.TypeByURL(req.TypeURL)
	if !ok {
		return s.unknown(req)
	}
	c := &s.channels[t]
	if s.acknowledges(c, &req) {
		s.stir(t)
	} else {
		s.stirAll()
	}
	if t == resource.Cluster && s.opened.IsZero() {
		s.opened = now
		s.warming.all = !req.reports()
	}
	if s.opened.IsZero() && !c.started && (req.VersionInfo != "" || req.reports()) {
		s.returns = true
	}
	switch {
	case s.opt.Protocol == StateOfTheWorld:
		s.requestSotw(c, req, now)
	case t == resource.LbEndpoint:
		s.requestMembers(c, req, now)
	default:
		s.requestDelta(c, req, now)
	}
	return s.advance(now)
}

// Update takes the newest State of the proxy's class, or the State of its new class, and the proxy's own addresses.
func (s *Session) Update(state resource.State, own resource.Overlay, now time.Time) []Response {
	if own != s.own {
		s.readdress(own)
		s.stirAll()
	}
	before := s.state
	s.state = state
	for t := range resource.NumTypes {
		if s.keeps(t, before, state) {
			continue
		}
		s.stir(t)
		c := &s.channels[t]
		c.set = s.visible(t)
		if c.started {
			c.sub.settle(s.opt.Differ, c.typ, c.set)
		}
		c.acquit()
	}
	s.warming.settle(state.Set(resource.Cluster))
	return s.advance(now)
}

// visible is what the client may have of a type.
func (s *Session) visible(t resource.Type) *resource.Set {
	switch {
	case t == resource.Secret && !s.own.Trusted, t == resource.VirtualHost && !s.pieces, t == resource.LbEndpoint:
		return resource.Empty()
	case t == resource.Route && !s.pieces:
		return s.state.Tables()
	}
	return s.state.Set(t)
}

// Tick lets pass what has waited long enough.
func (s *Session) Tick(now time.Time) []Response {
	s.stirAll()
	return s.advance(now)
}

// NextTick is when Tick should be called next; false when nothing waits for a time.
func (s *Session) NextTick() (time.Time, bool) {
	next := s.dependants.until
	for _, at := range []time.Time{s.removals.until, s.rescueAt(), s.paced, s.sealAt(sealAfter)} {
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next, !next.IsZero()
}

// State is what the session brings the client to, none before the first Update.
func (s *Session) State() resource.State { return s.state }

// Overlay are the proxy's own addresses.
func (s *Session) Overlay() resource.Overlay { return s.own }

// readdress notes under the old addresses what the client holds, so that it counts as changed. It walks all resources;
// addresses hardly ever change on a live stream.
func (s *Session) readdress(own resource.Overlay) {
	for t := range s.channels {
		c := &s.channels[t]
		for r := range c.held.base.All() {
			if _, ok := c.held.except[r.Name()]; r.HasPlaceholders() && !ok && c.sub.has(r.Name()) {
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

// nonce is unique on the stream.
func (s *Session) nonce(letter string) string {
	s.nonces++
	return nonceOf(letter, s.nonces)
}

// nonceOf is the nonce of a number; the letter tells people the type.
func nonceOf(letter string, number uint64) string { return letter + strconv.FormatUint(number, 36) }

// nonce is that of a number, empty for 0.
func (c *channel) nonce(number uint64) string {
	if number == 0 {
		return ""
	}
	return nonceOf(c.letter(), number)
}

// letter is the first of the type's short name, and "m" for members, since that of "leds" is taken.
func (c *channel) letter() string {
	if c.typ == resource.LbEndpoint {
		return "m"
	}
	return c.typ.String()[:1]
}
