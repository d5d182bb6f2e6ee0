package session

import (
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A client that speaks LEDS gets the endpoints of a large cluster as collections
// (resource.Collections): once the assignment with their names in place of endpoints (the head),
// then each endpoint that is added, changed or removed (the members). Holdings, subscriptions,
// obligations and quarantine are about assignments in either form.
//
//   - Collections are sent if it is certain what the client holds, or that it holds nothing. All
//     else is sent as a list: an assignment that is uncertain, asked for again, owed to a warming
//     cluster, or sent again after a refusal. A list is complete on its own, and every Envoy takes
//     it (1.1, 1.2, 1.7). The next change goes as collections again.
//   - The head is sent before its members, in a response of its own: the version that the client
//     reports must not be older than the members (1.7). The head is open until the members are
//     sealed: its version does not name them, so a client that reports it on its next stream gets
//     a list.
//   - Members are sent right after their head. Only the first ones of a stream wait until the
//     client asks for them: an Envoy that does not know the type drops them without an answer
//     (1.4), and it may refuse the head.
//   - Members that have not changed for sealAfter are sealed: the head is sent again, with a
//     version that names the members. A client that reports this version has them, and gets the
//     next change alone, after an open head. A server that shuts down seals what it can.
//   - A cluster whose head or members were refused gets lists for the rest of the stream.

// ledsState is which clusters a client has in LEDS form.
type ledsState struct {
	hasRequested bool  // members that wait were requested
	minEndpoints int32 // endpoints from which on an assignment goes in this form; 0: never
	// clusters are those of which the client has collections.
	clusters map[string]*ledsCluster
	// refused are clusters whose collections the client refused.
	refused map[string]struct{}
}

// ledsCluster is what the client has of one cluster's collections.
type ledsCluster struct {
	members *resource.Collections // nil if it reported them and was not sent any since
	sealed  bool
	// reported is set if it had them when the stream began. It then asks for them once more and
	// wants no answer.
	reported bool
	// awaitsRequest is set while the members wait for the client to ask for them, and requested
	// when it has.
	awaitsRequest, requested bool
	sentAt                   time.Time // when the head or members were last sent
}

// sealAfter is how long members must not change to be sealed. A seal and the open head that ends it
// are two messages, which few changes should pay for. A client that reconnects before is sent the
// list.
const sealAfter = 30 * time.Second

// churningShare is which part of minEndpoints an assignment has at least that goes in LEDS form
// because it changes often: with 200 endpoints these are 16. Below, the list is no larger than a
// few members with their names. Half of it keeps that form while it does.
const churningShare = 12

// churns reports whether an assignment is large enough for LEDS form and changes often enough. It
// takes the form when it changes alone.
func (e *emission) churns(r *resource.Resource, has bool, inBatch int) bool {
	least := e.session.leds.minEndpointsToStay() / churningShare
	return r.Endpoints() >= least && (has || inBatch == 1) && e.session.opt.Differ.Churns(r.Name())
}

// goes reports whether an assignment goes in LEDS form: a large one, or one that churns. A small
// one that has been quiet goes as a list again, so that a lone change is one message.
func goes(c *resource.Collections, large int, churns bool) bool {
	return c.Len() >= large || churns && c.Len() >= large/churningShare
}

// minEndpointsToStay is how many endpoints keep an assignment in LEDS form: half of minEndpoints.
// So a cluster whose size varies about the limit does not change its form each time.
func (s *ledsState) minEndpointsToStay() int { return int(s.minEndpoints) / 2 }

// resume records that the client reports to have sealed collections. It returns what that says of
// what it holds.
func (s *ledsState) resume(name string, h holding) holding {
	v, ok := h.version.ListVersion()
	if s.minEndpoints == 0 || !ok || h.certainty != known {
		return h
	}
	s.set(name, &ledsCluster{sealed: true, reported: true})
	h.version = v
	return h
}

func (s *ledsState) set(name string, k *ledsCluster) {
	if s.clusters == nil {
		s.clusters = map[string]*ledsCluster{}
	}
	s.clusters[name] = k
}

func (s *ledsState) drop(name string) {
	if delete(s.clusters, name); len(s.clusters) == 0 {
		s.clusters = nil
	}
}

// ledsStep is a step between assignments that goes as members.
type ledsStep struct {
	from      *resource.Resource // nil: from nothing, or from a list
	to        *resource.Resource
	needsHead bool // a head must go in front
}

// step returns how the client gets from what it holds to an assignment by members, or false if it
// must get a list. asking is set if the client has asked for members on this stream. Before that,
// nobody knows that it goes on with those of its last stream.
func (s *ledsState) step(h holding, to *resource.Resource, asking, churns bool) (_ ledsStep, ok bool) {
	collections := to.Collections()
	_, refused := s.refused[to.Name()]
	if s.minEndpoints == 0 || collections == nil || refused || to.HasPlaceholders() || h.isUncertain() {
		return ledsStep{}, false
	}
	nothing := h.version.IsZero() && h.resource == nil
	if h.certainty == answerDue && !nothing {
		return ledsStep{}, false
	}
	has := s.clusters[to.Name()]
	switch {
	// Of a cluster that went and has returned the client may still have members: it takes a cluster
	// that is as before for no change. Then a list says what is left.
	case has == nil && (nothing || h.resource != nil):
		return ledsStep{to: to, needsHead: true}, goes(collections, int(s.minEndpoints), churns)
	case has == nil, has.awaitsRequest, has.reported && !asking,
		h.resource == nil, h.resource.Collections() == nil, !h.resource.Collections().SameHead(collections):
		return ledsStep{}, false
	}
	return ledsStep{from: h.resource, to: to, needsHead: has.sealed},
		goes(collections, s.minEndpointsToStay(), churns)
}

// takeLEDSSteps takes out of a batch what goes as members. Mostly that is nothing, and then it
// allocates nothing.
func (e *emission) takeLEDSSteps(b *batch) (steps []ledsStep) {
	whole := b.upserts
	b.upserts, steps = e.takeFrom(b, b.upserts, nil)
	switch {
	case len(b.upserts) == len(whole):
	case len(b.upserts) == 0:
		b.change = nil
	case b.change != nil:
		b.change = b.change.Part(b.upserts)
		b.upserts = b.change.Upserts
	}
	b.extras, steps = e.takeFrom(b, b.extras, steps)
	return steps
}

// takeFrom adds what of a list goes as members to steps, and returns the rest.
func (e *emission) takeFrom(
	b *batch, list []*resource.Resource, steps []ledsStep,
) (rest []*resource.Resource, _ []ledsStep) {
	s := &e.session.leds
	all := true
	for i, r := range list {
		_, has := s.clusters[r.Name()]
		churns := e.churns(r, has, len(list))
		if !has && (s.minEndpoints == 0 || r.Endpoints() < int(s.minEndpoints) && !churns) {
			if !all {
				rest = append(rest, r)
			}
			continue
		}
		step, ok := s.step(
			b.heldBefore(r.Name(), &e.session.own), r, e.session.types[resource.LbEndpoint].started, churns,
		)
		switch {
		case ok && all:
			rest, all = append(make([]*resource.Resource, 0, len(list)), list[:i]...), false
			steps = append(steps, step)
		case ok:
			steps = append(steps, step)
		default:
			s.drop(r.Name())
			if !all {
				rest = append(rest, r)
			}
		}
	}
	if all {
		return list, steps
	}
	return rest, steps
}

// heldBefore returns what the client holds under a name before the batch.
func (b *batch) heldBefore(name string, own *resource.Overlay) holding {
	if h, ok := b.before[name]; ok {
		return h
	}
	if old := b.base.Get(name); old != nil {
		return holding{version: own.Version(old), resource: old}
	}
	return holding{}
}

// writeMembers sends heads and members. What goes as a list was sent before.
func (e *emission) writeMembers(b *batch, steps []ledsStep) {
	slices.SortFunc(steps, func(x, y ledsStep) int { return byName(x.to, y.to) })
	s := &e.session.leds
	record := sentResponse{base: b.base, before: b.before, offered: b.offered, isLEDS: true}
	heads := record
	var open []*resource.Resource
	members := &e.session.types[resource.LbEndpoint]
	for _, step := range steps {
		s.set(
			step.to.Name(),
			&ledsCluster{members: step.to.Collections(), sentAt: e.now, awaitsRequest: !members.started},
		)
		if step.needsHead {
			heads.upserts, open = append(heads.upserts, step.to), append(open, step.to.Collections().Open)
		}
	}
	if len(open) > 0 {
		e.respond(&e.session.types[resource.Endpoint], heads, Response{Upserts: open})
	}
	if !members.started {
		return
	}
	for _, step := range steps {
		part := record
		e.writeMemberStep(step, &part)
	}
}

func (e *emission) writeMemberStep(step ledsStep, record *sentResponse) {
	change := e.session.opt.Differ.Members(step.from, step.to)
	record.isLEDS, record.upserts = true, []*resource.Resource{step.to}
	e.respond(&e.session.types[resource.LbEndpoint], *record, Response{
		Upserts: change.Upserts,
		Removed: change.Removed,
		Shared:  change,
	})
}

// writeRequestedMembers sends the members that were waiting for the client to ask for them.
func (e *emission) writeRequestedMembers() {
	if !e.session.leds.hasRequested {
		return
	}
	e.session.leds.hasRequested = false
	ts := &e.session.types[resource.Endpoint]
	for _, name := range slices.Sorted(maps.Keys(e.session.leds.clusters)) {
		k := e.session.leds.clusters[name]
		if !k.requested {
			continue
		}
		r := ts.held.base.Get(name)
		*k = ledsCluster{members: r.Collections(), sentAt: e.now}
		e.writeMemberStep(ledsStep{to: r}, &sentResponse{base: ts.held.base})
	}
}

// requestMembers takes a request for collections. Those that were sent a moment ago, or that the
// client had on its last stream, need no answer. The client may lack what else it asks for, and
// gets it as a list.
func (s *Session) requestMembers(ts *typeState, req Request, now time.Time) {
	s.handleAnswer(ts, req, now)
	first := !ts.started
	ts.started = true
	for raw := range req.subscribed() {
		name := string(raw)
		cluster := s.leds.find(name, s.types[resource.Endpoint].held.base)
		switch k := s.leds.clusters[cluster]; {
		case k == nil: // it has a list, or is about to get one
		case first && k.reported:
		case k.awaitsRequest && ts.session.types[resource.Endpoint].settled(cluster):
			k.requested, s.leds.hasRequested = true, true
		case slices.ContainsFunc(ts.unanswered, func(r *sentResponse) bool { return r.contains(cluster) }):
		default:
			s.types[resource.Endpoint].oweAnswer(cluster, true)
		}
	}
}

// find returns the cluster whose collection has the name, or "".
func (s *ledsState) find(collection string, in *resource.Set) string {
	for cluster, k := range s.clusters {
		form := k.members
		if r := in.Get(cluster); form == nil && r != nil {
			form = r.Collections()
		}
		if form != nil && form.Has(collection) {
			return cluster
		}
	}
	return ""
}

// handleLEDSNack takes a NACK of heads or of members. Nobody knows what the client has of them.
func (s *Session) handleLEDSNack(r *sentResponse) {
	ts := &s.types[resource.Endpoint]
	newer := slices.DeleteFunc(slices.Clone(ts.unanswered), func(n *sentResponse) bool { return n.number < r.number })
	ts.correctNewer(r, newer)
	for _, u := range r.upserts {
		s.leds.refused = with(s.leds.refused, u.Name())
		if ts.wants(u.Name()) && !anyContains(newer, u.Name()) {
			h := r.heldBefore(u.Name(), &s.own)
			h.alternative = anyVersion
			ts.setHolding(u.Name(), h, uncertain)
		}
	}
	if s.trustsEndpoints {
		s.resendEndpoints() // any refusal of endpoints ends all warming
	}
}

// Seal is for a stream that is about to end from this side. It seals all members that the client
// certainly has, however recent they are, so that the client can go on from there with the next
// server. If the client loses the seals, or does not read them, it gets lists, as without them. The
// session may go on.
func (s *Session) Seal(now time.Time) []Response {
	e := &emission{session: s, now: now}
	s.seal(e, 0)
	return e.out
}

// EndpointsAnswered reports whether the client has answered all that it was sent of endpoints.
func (s *Session) EndpointsAnswered() bool {
	return !s.awaitsAnswer.has(resource.Endpoint) && !s.awaitsAnswer.has(resource.LbEndpoint)
}

// seal sends the heads of members that have not changed for the time quiet, with the version that
// says which members there are.
func (s *Session) seal(e *emission, quiet time.Duration) {
	at := s.sealAt(quiet)
	if at.IsZero() || at.After(e.now) {
		return
	}
	ts := &s.types[resource.Endpoint]
	record := sentResponse{base: ts.held.base, isLEDS: true}
	var heads []*resource.Resource
	for _, name := range slices.Sorted(maps.Keys(s.leds.clusters)) {
		k, r := s.leds.clusters[name], ts.held.base.Get(name)
		if !ts.sealable(name, k) || k.sentAt.Add(quiet).After(e.now) {
			continue
		}
		k.sealed = true
		record.upserts, heads = append(record.upserts, r), append(heads, r.Collections().Sealed)
	}
	e.respond(ts, record, Response{Upserts: heads})
}

// sealAt returns when the next members will not have changed for the time quiet. It is zero if that
// depends on something else.
func (s *Session) sealAt(quiet time.Duration) (at time.Time) {
	if len(s.leds.clusters) == 0 || !s.EndpointsAnswered() {
		return at
	}
	ts := &s.types[resource.Endpoint]
	for name, k := range s.leds.clusters {
		if until := k.sentAt.Add(quiet); ts.sealable(name, k) && (at.IsZero() || until.Before(at)) {
			at = until
		}
	}
	return at
}

// sealable reports whether the client certainly has what the base says, as collections that are not
// sealed.
func (ts *typeState) sealable(name string, k *ledsCluster) bool {
	return !k.sealed && !k.awaitsRequest && ts.settled(name)
}

// settled reports whether the client certainly has an assignment as the base says, and it may be in
// collections.
func (ts *typeState) settled(name string) bool {
	_, exception := ts.held.exceptions[name]
	r := ts.held.base.Get(name)
	return !exception && ts.wants(name) && r != nil && r.Collections() != nil
}
