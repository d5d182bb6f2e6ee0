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
	// Differ is required. Sessions that share it share the differences between their sets.
	Differ *resource.Differ
	// Scratch, unless it is nil, is where this session borrows memory for events.
	Scratch *Scratch

	// Hold is the longest wait of listeners and routes for the ACK of the clusters that they may
	// name. It is also the longest wait of removals, once they may be sent, for the ACK of what no
	// longer names them. Zero means DefaultHold.
	Hold time.Duration
	// Drain is how long a replaced or removed listener serves with its old configuration after its
	// ACK, which is the proxy's drain time. Removals wait for that long in addition.
	Drain time.Duration
	// MaxBytes splits responses whose resources add up to more, for clients with a limit on message
	// size. Zero means never. One resource, and a full state-of-the-world response, are never
	// split.
	MaxBytes int
	// VirtualHosts is set if the client speaks VHDS, as Envoy does. On a delta stream it then gets
	// route tables and virtual hosts as resources of their own. See vhds.go.
	VirtualHosts bool
	// Collections is the number of endpoints from which on an assignment goes in LEDS form, on a
	// delta stream. Zero means never. See leds.go.
	Collections int
	// Distrust are names whose reported versions, or absence from the report, do not count. They
	// come from Session.Distrusted of the same proxy's last stream.
	Distrust [resource.NumTypes]map[string]struct{}
}

// keptOptions are the Options that a session needs as long as it lives.
type keptOptions struct {
	Protocol    Protocol
	MaxBytes    int32 // beside Protocol, where it takes no word of its own
	Differ      *resource.Differ
	Scratch     *Scratch
	Hold, Drain time.Duration
}

// DefaultHold is longer than the warming of clusters takes, except for clusters that will never be
// warm.
const DefaultHold = 10 * time.Second

// maxOutstanding is how many responses of one type may be unanswered. Above it the session sends no
// more of that type until the client answers. What changes meanwhile waits as a difference, and
// only the newest state is sent.
const maxOutstanding = 32

// Session is the protocol state of one stream. It is not safe for concurrent use.
type Session struct {
	opt   keptOptions
	own   resource.Overlay
	state resource.State // none before the first Update

	// These bytes stand together: apart from each other they would take 128 more.

	idle           typeSet // types of which nothing is to be done, see idle.go
	awaitsAnswer   typeSet // types with responses that the client has not answered
	markedVersions typeSet // state of the world: types whose versions end in versionMark
	hasSubscribed  bool    // the client has asked for something that is served
	reconciled     bool    // a new stream's listeners and routes have been brought up to date once
	vhds           bool    // the client gets route tables as heads, and virtual hosts as resources of their own
	// isReconnect is set if the client had a stream before and has not asked for clusters yet.
	// Envoy asks for them first, unless one of them warms; then it asks when it has that cluster's
	// endpoints.
	isReconnect bool
	// trustsEndpoints is set while the session relies on the endpoints that the client reported to
	// have, see emission.probe.
	trustsEndpoints bool
	// doubtsListeners is set while the client may refuse listeners because of a filter that it
	// refused, on this stream or an earlier one. It ends when the client has accepted an older form
	// of that filter, a newer one, or its removal.
	doubtsListeners bool

	nonces uint32 // no stream has more than 2^32 responses

	rare *rareState // nil for most
	// unansweredTables are tables whose heads were sent before the client's first request for
	// virtual hosts, to a client that may not have their virtual hosts.
	unansweredTables map[string]struct{}

	dependants hold // of listeners and routes, for the ACK of clusters
	removals   hold // of removals, for the ACK of listeners and routes

	pacedUntil time.Time // when a full response goes even if the one before is unanswered
	drainedAt  time.Time // when the listeners that were replaced last will have drained
	// routesAskedUntil is until when the client may still ask for routes that its newest listeners
	// name. Envoy ACKs a listener at once, then asks for its routes; until they are there the old
	// listener goes on with the old routes.
	routesAskedUntil time.Time
	openedAt         time.Time // first request for clusters
	// leds is which clusters the client has in LEDS form.
	leds ledsState

	// warming are clusters whose endpoints must be in the answer to the client's next request for
	// endpoints. On a delta stream these are the clusters sent before the first such request, which
	// may report the right version (P10). In state of the world they are all clusters sent since
	// the last one (P11).
	warming warming

	ackedGeneration uint64
	answeredAhead   uint32 // by how many generations what is answered is newer than what is acknowledged
	expiredNonces   uint32

	types [firstRare]typeState // of the types that every client asks for, see rare.go
}

// New returns the session of a stream that has just been opened.
func New(o Options) *Session {
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	s := &Session{
		opt: keptOptions{
			Protocol: o.Protocol,
			MaxBytes: int32(min(o.MaxBytes, math.MaxInt32)),
			Differ:   o.Differ,
			Scratch:  o.Scratch,
			Hold:     o.Hold,
			Drain:    o.Drain,
		},
		vhds: o.VirtualHosts && o.Protocol == Delta,
	}
	if o.Protocol == Delta {
		s.leds.minEndpoints = int32(min(o.Collections, math.MaxInt32))
	}
	if slices.ContainsFunc(o.Distrust[:], func(names map[string]struct{}) bool { return len(names) > 0 }) {
		s.ownRare().distrusted = o.Distrust
	}
	for t := range s.types {
		s.types[t].init(s, resource.Type(t))
	}
	return s
}

// Request takes a request from the client.
func (s *Session) Request(req Request, now time.Time) []Response {
	t, ok := resource.TypeByURL(req.TypeURL)
	if !ok {
		return s.unknown(req)
	}
	s.askFor(t)
	ts := s.of(t)
	if s.acknowledges(ts, &req) {
		s.wake(t)
	} else {
		s.wakeAll()
	}
	if t == resource.Cluster && s.openedAt.IsZero() {
		s.openedAt = now
		s.warming.all = !req.reports()
	}
	if s.openedAt.IsZero() && !ts.started && (req.VersionInfo != "" || req.reports()) {
		s.isReconnect = true
	}
	switch {
	case s.opt.Protocol == StateOfTheWorld:
		s.requestSotw(ts, req, now)
	case t == resource.LbEndpoint:
		s.requestMembers(ts, req, now)
	default:
		s.requestDelta(ts, req, now)
	}
	return s.advance(now)
}

// Update takes the newest State of the proxy's class, or the State of its new class, and the
// proxy's own addresses.
func (s *Session) Update(state resource.State, own resource.Overlay, now time.Time) []Response {
	if own != s.own {
		s.readdress(own)
		s.wakeAll()
	}
	before := s.state
	s.state = state
	for t := range resource.NumTypes {
		if s.staysIdle(t, before, state) {
			continue
		}
		s.wake(t)
		ts := s.of(t)
		if ts.session == nil { // nobody has asked for it
			continue
		}
		ts.set = s.visible(t)
		if ts.started {
			ts.sub.compact(s.opt.Differ, ts.typ, ts.set)
		}
		ts.endQuarantine()
	}
	s.warming.settle(state.Set(resource.Cluster))
	return s.advance(now)
}

// visible returns what the client may have of a type.
func (s *Session) visible(t resource.Type) *resource.Set {
	switch {
	case t == resource.Secret && !s.own.Trusted, t == resource.VirtualHost && !s.vhds, t == resource.LbEndpoint:
		return resource.Empty()
	case t == resource.Route && !s.vhds:
		return s.state.Tables()
	case t == resource.Name && !s.rare.namesOneByOne:
		return s.state.NameTable()
	}
	return s.state.Set(t)
}

// Tick releases what has waited long enough.
func (s *Session) Tick(now time.Time) []Response {
	s.wakeAll()
	return s.advance(now)
}

// NextTick returns when Tick should be called next, or false if nothing waits for a time.
func (s *Session) NextTick() (time.Time, bool) {
	if s.state.IsNone() { // nothing can be sent
		return time.Time{}, false
	}
	next := s.dependants.until
	for _, at := range []time.Time{s.removals.until, s.probeAt(), s.pacedUntil, s.sealAt(sealAfter)} {
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next, !next.IsZero()
}

// State returns what the session brings the client to. It is none before the first Update.
func (s *Session) State() resource.State { return s.state }

// Overlay returns the proxy's own addresses.
func (s *Session) Overlay() resource.Overlay { return s.own }

// readdress records under the old addresses what the client holds, so that it counts as changed. It
// walks all resources; addresses hardly ever change on a live stream.
func (s *Session) readdress(own resource.Overlay) {
	for t := range s.types { // the others hold no addresses of the proxy
		ts := &s.types[t]
		for r := range ts.held.base.All() {
			if _, ok := ts.held.exceptions[r.Name()]; r.HasPlaceholders() && !ok && ts.sub.has(r.Name()) {
				ts.held.set(r.Name(), holding{version: s.own.Version(r), resource: r})
			}
		}
	}
	s.own = own
}

// unknown answers a request for a type that is not served, so that the client does not wait.
// Nothing has to be remembered, and the client's ACK needs no answer (P21).
func (s *Session) unknown(req Request) []Response {
	if req.Nonce != "" {
		return nil
	}
	return []Response{{Unknown: req.TypeURL, Nonce: s.nonce("x")}}
}

// nonce returns the next nonce, which is unique on the stream.
func (s *Session) nonce(letter string) string {
	s.nonces++
	return nonceOf(letter, uint64(s.nonces))
}

// nonceOf returns the nonce of a number. The letter shows people the type.
func nonceOf(letter string, number uint64) string { return letter + strconv.FormatUint(number, 36) }

// nonce returns the nonce of a number, or "" for 0.
func (ts *typeState) nonce(number uint64) string {
	if number == 0 {
		return ""
	}
	return nonceOf(ts.letter(), number)
}

// letter returns the first letter of the type's short name; "m" for members and "f" for filters,
// since "leds" begins like "lds", and "ecds" like "eds".
func (ts *typeState) letter() string {
	switch ts.typ {
	case resource.LbEndpoint:
		return "m"
	case resource.Filter:
		return "f"
	}
	return ts.typ.String()[:1]
}
