package session

import (
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A client that speaks LEDS gets the endpoints of a large cluster as collections (resource.Collections): the assignment's head once, then
// each endpoint that comes, changes or goes. That is a way to bring it from one assignment to the next, and no more: all else here,
// holdings, subscriptions, obligations and quarantine, is about assignments, whatever their form. The rules of the form are that
//
//   - it is for steps of which both ends are known for sure, and for a client that has nothing yet. Whatever is in doubt, asked for
//     again, owed to a cluster that warms or sent again after a refusal goes as a list, which is exact on its own and which every
//     Envoy takes (1.1, 1.2, 1.7). From a list it goes back to collections with the next change;
//   - a head goes in front of its members and alone, since the version that the client reports must not be older than them (1.7). Until
//     the members are sealed it is one that says nothing of them, so that a client that comes back with it gets a list;
//   - members go right behind their head, but for the first on a stream, which wait until the client asks for them: an Envoy that does
//     not know the type drops them without an answer (1.4), and it may not take the head;
//   - members that have been quiet for a while are sealed: the head goes again, with the version that says which they are. A client
//     that comes back with that has them, and gets on with the next change. That change is preceded by an open head again. A server
//     that is about to end seals what it can;
//   - what is refused as head or members goes as a list from then on, on this stream.
type collections struct {
	asked bool  // one of them was asked for that waits
	from  int32 // endpoints from which on an assignment goes in this form; 0: none does
	// of are the clusters of which the client has collections.
	of map[string]*collected
	// never are clusters whose collections the client refused.
	never map[string]struct{}
}

// collected is how far the client has one cluster's collections.
type collected struct {
	form   *resource.Collections // nil when it reported to have them and was not sent any since
	sealed bool
	// reported tells that it had them when the stream began, so that it asks for them once more and wants no answer.
	reported bool
	// waits tells that its members go when it asks for them, and asked that it has.
	waits, asked bool
	changed      time.Time // when the head or members were last sent
}

// sealAfter is how long members have to be quiet to be sealed. A seal and its end are two messages, which few changes should pay for;
// a client that comes back before is sent the list.
const sealAfter = 30 * time.Second

// staysFrom is how many endpoints, of those from which on an assignment goes as collections, keep it in that form: a cluster that moves
// to and fro about the limit does not change its form each time.
func (s *collections) staysFrom() int { return int(s.from) / 2 }

// resume notes that the client reports to have sealed collections, and returns what that says of what it holds.
func (s *collections) resume(name string, h holding) holding {
	v, ok := h.version.Collected()
	if s.from == 0 || !ok || h.doubt != sure {
		return h
	}
	s.keep(name, &collected{sealed: true, reported: true})
	h.version = v
	return h
}

func (s *collections) keep(name string, k *collected) {
	if s.of == nil {
		s.of = map[string]*collected{}
	}
	s.of[name] = k
}

func (s *collections) drop(name string) {
	if delete(s.of, name); len(s.of) == 0 {
		s.of = nil
	}
}

// stride is a step that goes as members.
type stride struct {
	from *resource.Resource // nil: from nothing, or from a list
	to   *resource.Resource
	head bool // it needs a head in front
}

// stride tells whether, and how, the client gets from what it holds to an assignment by members. Asking tells that it has asked for
// members on this stream: before it does, nobody knows that it goes on with those of its last stream.
func (s *collections) stride(h holding, to *resource.Resource, asking bool) (st stride, ok bool) {
	fine := to.Collections()
	if _, refused := s.never[to.Name()]; s.from == 0 || fine == nil || refused || to.HasPlaceholders() || h.doubtful() {
		return stride{}, false
	}
	nothing := h.version.IsZero() && h.resource == nil
	if h.doubt == asked && !nothing {
		return stride{}, false
	}
	has := s.of[to.Name()]
	switch {
	case nothing, has == nil && h.resource != nil:
		return stride{to: to, head: true}, fine.Len() >= int(s.from)
	case has == nil, has.waits, has.reported && !asking, h.resource == nil, h.resource.Collections() == nil, !h.resource.Collections().SameHead(fine):
		return stride{}, false
	}
	return stride{from: h.resource, to: to, head: has.sealed}, fine.Len() >= s.staysFrom()
}

// collects takes out of a batch what goes as members. Mostly that is nothing, and then it costs nothing.
func (e *emission) collects(b *batch) (strides []stride) {
	whole := b.upserts
	b.upserts, strides = e.pick(b, b.upserts, nil)
	switch {
	case len(b.upserts) == len(whole):
	case len(b.upserts) == 0:
		b.change = nil
	case b.change != nil:
		b.change = b.change.Part(b.upserts)
		b.upserts = b.change.Upserts
	}
	b.others, strides = e.pick(b, b.others, strides)
	return strides
}

// pick adds what of a list goes as members to strides, and returns the rest.
func (e *emission) pick(b *batch, list []*resource.Resource, strides []stride) (rest []*resource.Resource, _ []stride) {
	s := &e.session.collections
	all := true
	for i, r := range list {
		if _, goes := s.of[r.Name()]; !goes && (s.from == 0 || r.Endpoints() < int(s.from)) {
			if !all {
				rest = append(rest, r)
			}
			continue
		}
		st, ok := s.stride(b.prior(r.Name(), &e.session.own), r, e.session.channels[resource.LbEndpoint].started)
		switch {
		case ok && all:
			rest, all = append(make([]*resource.Resource, 0, len(list)), list[:i]...), false
			strides = append(strides, st)
		case ok:
			strides = append(strides, st)
		default:
			s.drop(r.Name())
			if !all {
				rest = append(rest, r)
			}
		}
	}
	if all {
		return list, strides
	}
	return rest, strides
}

// prior is what the client holds under a name before the batch.
func (b *batch) prior(name string, own *resource.Overlay) holding {
	if h, ok := b.before[name]; ok {
		return h
	}
	if old := b.from.Get(name); old != nil {
		return holding{version: own.Version(old), resource: old}
	}
	return holding{}
}

// writeMembers sends heads and members. What went as a list goes before.
func (e *emission) writeMembers(b *batch, strides []stride) {
	slices.SortFunc(strides, func(x, y stride) int { return byName(x.to, y.to) })
	s := &e.session.collections
	record := sent{from: b.from, before: b.before, offered: b.offered, collected: true}
	heads := record
	var open []*resource.Resource
	members := &e.session.channels[resource.LbEndpoint]
	for _, st := range strides {
		s.keep(st.to.Name(), &collected{form: st.to.Collections(), changed: e.now, waits: !members.started})
		if st.head {
			heads.upserts, open = append(heads.upserts, st.to), append(open, st.to.Collections().Open)
		}
	}
	if len(open) > 0 {
		e.respond(&e.session.channels[resource.Endpoint], heads, Response{Upserts: open})
	}
	if !members.started {
		return
	}
	for _, st := range strides {
		part := record
		e.writeStride(st, &part)
	}
}

func (e *emission) writeStride(st stride, record *sent) {
	change := e.session.opt.Differ.Members(st.from, st.to)
	record.collected, record.upserts = true, []*resource.Resource{st.to}
	e.respond(&e.session.channels[resource.LbEndpoint], *record, Response{Upserts: change.Upserts, Removed: change.Removed, Shared: change})
}

// writeAsked sends the members that were waiting for the client to ask for them.
func (e *emission) writeAsked() {
	if !e.session.collections.asked {
		return
	}
	e.session.collections.asked = false
	c := &e.session.channels[resource.Endpoint]
	for _, name := range slices.Sorted(maps.Keys(e.session.collections.of)) {
		k := e.session.collections.of[name]
		if !k.asked {
			continue
		}
		r := c.held.base.Get(name)
		*k = collected{form: r.Collections(), changed: e.now}
		e.writeStride(stride{to: r}, &sent{from: c.held.base})
	}
}

// requestMembers takes a request for collections. Those that were sent a moment ago, or that it had on its last stream, are no
// question; what else it asks for it may lack, and gets as a list.
func (s *Session) requestMembers(c *channel, req Request, now time.Time) {
	s.answer(c, req, now)
	first := !c.started
	c.started = true
	for raw := range req.subscribed() {
		name := string(raw)
		cluster := s.collections.find(name, s.channels[resource.Endpoint].held.base)
		switch k := s.collections.of[cluster]; {
		case k == nil: // it has a list by now, or is about to
		case first && k.reported:
		case k.waits && c.session.channels[resource.Endpoint].settled(cluster):
			k.asked, s.collections.asked = true, true
		case slices.ContainsFunc(c.sent, func(r *sent) bool { return r.carries(cluster) }):
		default:
			s.channels[resource.Endpoint].ask(cluster, true)
		}
	}
}

// find is the cluster whose collection has the name, empty if none has.
func (s *collections) find(collection string, in *resource.Set) string {
	for cluster, k := range s.of {
		form := k.form
		if r := in.Get(cluster); form == nil && r != nil {
			form = r.Collections()
		}
		if form != nil && form.Has(collection) {
			return cluster
		}
	}
	return ""
}

// refuseCollections takes a NACK of heads or of members: nobody knows what the client has of them.
func (s *Session) refuseCollections(r *sent) {
	c := &s.channels[resource.Endpoint]
	newer := slices.DeleteFunc(slices.Clone(c.sent), func(n *sent) bool { return n.number < r.number })
	c.passOn(r, newer)
	for _, u := range r.upserts {
		s.collections.never = with(s.collections.never, u.Name())
		if c.wants(u.Name()) && !carried(newer, u.Name()) {
			h := r.prior(u.Name(), &s.own)
			h.maybe = anything
			c.doubt(u.Name(), h, unsure)
		}
	}
	if s.trusted {
		s.distrust() // as any refusal for endpoints: it ends all warming
	}
}

// Seal is for a stream that is about to end from this side: all members are sealed that the client surely has, however short they
// have been quiet, so that it can go on from there with whom it comes to next. It may lose the seals, or not read them; then it gets
// lists, as without. Nothing forbids the session to go on.
func (s *Session) Seal(now time.Time) []Response {
	e := &emission{session: s, now: now}
	s.seal(e, 0)
	return e.out
}

// EndpointsAnswered tells that the client has answered all that it was sent of endpoints.
func (s *Session) EndpointsAnswered() bool {
	return !s.awaits.has(resource.Endpoint) && !s.awaits.has(resource.LbEndpoint)
}

// seal sends the heads again of members that have been quiet for so long, with the version that says which they are.
func (s *Session) seal(e *emission, quiet time.Duration) {
	at := s.sealAt(quiet)
	if at.IsZero() || at.After(e.now) {
		return
	}
	c := &s.channels[resource.Endpoint]
	record := sent{from: c.held.base, collected: true}
	var heads []*resource.Resource
	for _, name := range slices.Sorted(maps.Keys(s.collections.of)) {
		k, r := s.collections.of[name], c.held.base.Get(name)
		if !c.sealable(name, k) || k.changed.Add(quiet).After(e.now) {
			continue
		}
		k.sealed = true
		record.upserts, heads = append(record.upserts, r), append(heads, r.Collections().Sealed)
	}
	e.respond(c, record, Response{Upserts: heads})
}

// sealAt is when the next members will have been quiet for so long, the zero time when that is up to something else.
func (s *Session) sealAt(quiet time.Duration) (at time.Time) {
	if len(s.collections.of) == 0 || !s.EndpointsAnswered() {
		return at
	}
	c := &s.channels[resource.Endpoint]
	for name, k := range s.collections.of {
		if until := k.changed.Add(quiet); c.sealable(name, k) && (at.IsZero() || until.Before(at)) {
			at = until
		}
	}
	return at
}

// sealable tells that the client surely has what the base says, as collections that are not sealed.
func (c *channel) sealable(name string, k *collected) bool {
	return !k.sealed && !k.waits && c.settled(name)
}

// settled tells of an assignment that the client surely has it as the base says, and that it may be in collections.
func (c *channel) settled(name string) bool {
	_, exception := c.held.except[name]
	r := c.held.base.Get(name)
	return !exception && c.wants(name) && r != nil && r.Collections() != nil
}
