package sidecar

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// typeSet is a set of types.
type typeSet uint8

func (s typeSet) has(t Type) bool { return s&(1<<t) != 0 }
func (s *typeSet) add(t Type)     { *s |= 1 << t }
func (s *typeSet) remove(t Type)  { *s &^= 1 << t }

// wildcard tells that a type is asked for without names.
func (t Type) wildcard() bool {
	return t == Cluster || t == Listener || t == VirtualHost || t == NameTable
}

// parent is the type whose resources name those of this one.
func (t Type) parent() (parent Type, named bool) {
	switch t {
	case Endpoint:
		return Cluster, true
	case Collection:
		return Endpoint, true
	case Route:
		return Listener, true
	}
	return 0, false
}

// child is the type whose resources those of this one name.
func (t Type) child() (child Type, names bool) {
	switch t {
	case Cluster:
		return Endpoint, true
	case Endpoint:
		return Collection, true
	case Listener:
		return Route, true
	}
	return 0, false
}

func typeOf(url []byte) (Type, bool) {
	for t := range types {
		if types[t].url == string(url) {
			return Type(t), true
		}
	}
	return 0, false
}

// Fields of DeltaDiscoveryResponse and DiscoveryResponse, of which only what is in common has the same numbers by accident.
const (
	responseVersion   = 1 // system_version_info, version_info
	responseResources = 2 // Resource, Any
	responseTypeURL   = 4
	responseNonce     = 5
	deltaRemoved      = 6

	resourceVersion = 1
	resourceBody    = 2
	resourceName    = 3
)

// incoming is a response as far as it has come.
type incoming struct {
	message             message
	url, nonce, version []byte
	edits               []edit
	typ                 Type // of the resources
	digest              uint64
	resources, removed  int
	refusal             string // why it is not taken
}

// keep bounds what an incoming that waits for the next response holds on to.
const keepEdits, keepField = 8192, 64 << 10

func (in *incoming) reset() {
	clear(in.edits)
	*in = incoming{message: in.message, url: in.url[:0], nonce: in.nonce[:0], version: in.version[:0], edits: in.edits[:0], typ: NumTypes}
	if cap(in.edits) > keepEdits {
		in.edits = nil
	}
	if cap(in.message.field) > keepField {
		in.message.field = nil
	}
}

// field takes a field of a response.
func (s *Sidecar) field(number protowire.Number, kind protowire.Type, v []byte) error {
	if kind != protowire.BytesType {
		return nil
	}
	in := s.in
	switch number {
	case responseVersion:
		in.version = append(in.version[:0], v...)
	case responseResources:
		return s.resource(v)
	case responseTypeURL:
		in.url = append(in.url[:0], v...)
	case responseNonce:
		in.nonce = append(in.nonce[:0], v...)
	case deltaRemoved:
		if s.world == nil {
			name := string(v)
			hash := nameHash(name)
			in.removed++
			in.edits = append(in.edits, edit{hash: hash, name: name})
			in.digest = mix(in.digest, hash+1)
		}
	}
	return nil
}

// resource takes a Resource, or in state of the world an Any. What cannot be read makes the response be refused.
func (s *Sidecar) resource(v []byte) error {
	in := s.in
	in.resources++
	f := found{seen: in.version}
	body := v
	if s.world == nil {
		body = nil
		err := eachField(v, func(number protowire.Number, v []byte) error {
			switch number {
			case resourceVersion:
				f.version = v
			case resourceBody:
				body = v
			case resourceName:
				f.name = v
			}
			return nil
		})
		if err != nil || body == nil {
			// Without a body there is none to hold: an answer to an on-demand request (VHDS), which was not made.
			return err
		}
	}
	url, value, err := anyFields(body)
	if err != nil {
		return err
	}
	t, known := typeOf(url)
	if !known || in.typ != NumTypes && in.typ != t {
		in.refusal = fmt.Sprintf("a resource %q has the type URL %q", f.name, url)
		return nil
	}
	in.typ, f.typ, f.body = t, t, value
	e, err := s.loop.entry(&f)
	if err != nil {
		in.refusal = fmt.Sprintf("%s %q: %v", t, f.name, err)
		return nil
	}
	in.edits = append(in.edits, edit{hash: e.hash, name: e.name, entry: e})
	in.digest = mix(in.digest, e.key)
	return nil
}

// complete takes a response that is whole: it asks for what follows of it and then answers it, in Envoy's order.
func (s *Sidecar) complete(size int) error {
	in, stats := s.in, &s.loop.stats
	defer in.reset()
	s.responses++
	s.firstResponse()
	t, known := typeOf(in.url)
	if !known || !s.asked.has(t) {
		stats.Unknown++
		return nil
	}
	of := &stats.Types[t]
	of.Responses++
	of.Bytes += uint64(size)
	of.Resources += uint64(in.resources)
	of.Removed += uint64(in.removed)
	if in.typ != NumTypes && in.typ != t && in.refusal == "" {
		in.refusal = fmt.Sprintf("resources of type %s in a response of type %s", in.typ, t)
	}
	if in.refusal == "" && s.manners != nil && s.draw() < s.manners.NackShare {
		in.refusal = "refused, as the share of refusals demands"
	}
	s.waits.remove(t)
	if in.refusal == "" {
		s.take(t, in)
	}
	s.answer(t, in)
	s.updateSynced()
	return nil
}

// take makes what came what the sidecar holds.
func (s *Sidecar) take(t Type, in *incoming) {
	if s.world != nil {
		s.world[t].version = string(in.version)
	}
	if t == Collection {
		s.loop.members.tell(s, in.edits)
		s.proceed() // members have no versions that are reported, so they need not be held
		return
	}
	if _, named := t.parent(); named {
		for i, e := range in.edits {
			if e.entry == nil {
				in.edits[i].entry = s.loop.none(t, e.name)
			}
		}
	}
	was := s.tables[t]
	from := was
	if s.world != nil && t.wildcard() {
		from = s.loop.empty // what is not there is gone
	}
	is := s.loop.apply(from, in.edits, in.digest)
	s.tables[t] = is
	s.tell(was, is, in.edits)
	s.follow(t, was, is)
}

// tell reports what is marked and was not held, and what was and is not any more.
func (s *Sidecar) tell(was, is *table, edits []edit) {
	l := s.loop
	if l.options.Arrived == nil || was == is {
		return
	}
	for _, e := range edits {
		switch {
		case e.entry != nil && e.entry.mark != 0:
			if was.get(e.hash, e.name) != e.entry {
				l.options.Arrived(Arrival{Sidecar: s, Mark: e.entry.mark, At: l.readAt})
			}
		case e.entry == nil || e.entry.absent:
			if had := was.get(e.hash, e.name); had != nil && had.mark != 0 {
				l.options.Arrived(Arrival{Sidecar: s, Mark: had.mark, Removed: true, At: l.readAt})
			}
		}
	}
	if s.world == nil || was.marked == 0 {
		return
	}
	var at place
	for e := was.next(&at); e != nil; e = was.next(&at) {
		if e.mark != 0 && is.get(e.hash, e.name) == nil {
			l.options.Arrived(Arrival{Sidecar: s, Mark: e.mark, Removed: true, At: l.readAt})
		}
	}
}

// follow asks for what the resources of a type refer to, and forgets what they do not any more.
func (s *Sidecar) follow(t Type, was, is *table) {
	if child, ok := t.child(); ok && was != is {
		step := s.loop.step(was, is)
		if len(step.less) > 0 {
			edits, digest := make([]edit, len(step.less)), uint64(0)
			for i, name := range step.less {
				edits[i] = edit{hash: nameHash(name), name: name}
				digest = mix(digest, edits[i].hash+1)
			}
			before := s.tables[child]
			s.tables[child] = s.loop.apply(before, edits, digest)
			s.subscribe(child, step)
			s.follow(child, before, s.tables[child])
		} else if len(step.more) > 0 {
			s.subscribe(child, step)
		}
	}
	s.proceed()
}

func (s *Sidecar) subscribe(t Type, step step) {
	if len(step.more) > 0 {
		s.settled.remove(t)
		s.late.remove(t)
		s.expect(t)
	}
	switch {
	case !s.asked.has(t):
		s.open(t)
	case s.world != nil:
		r := s.request(t)
		s.worldFields(&r, t)
		s.queue(r)
	default:
		r := s.request(t)
		r.names, r.drop = step.more, step.less
		s.queue(r)
	}
}

// proceed asks for the next types when it is their turn.
func (s *Sidecar) proceed() {
	s.settle(Cluster, Endpoint)
	s.settle(Listener, Route)
	if !s.asked.has(Listener) && s.has(Endpoint) {
		s.openExtras()
		s.open(Listener)
	}
	if !s.asked.has(VirtualHost) && s.tables[Route].vhds > 0 && s.world == nil {
		s.open(VirtualHost)
	}
}

// settle notes when all names that a type refers to were answered.
func (s *Sidecar) settle(parent, child Type) {
	if s.settled.has(child) || s.waits.has(parent) || !s.asked.has(parent) {
		return
	}
	if s.tables[parent].refers == 0 || s.loop.pending(s.tables[parent], s.tables[child]) == 0 {
		s.settled.add(child)
	}
}

// has tells that all of a type's names were answered, or waited for long enough.
func (s *Sidecar) has(t Type) bool { return s.settled.has(t) || s.late.has(t) }

// begin asks for the first time on a stream: for clusters, or on a later stream for all that was asked for before.
func (s *Sidecar) begin() {
	s.asked, s.waits, s.settled, s.late, s.timed = 0, 0, 0, 0, 0
	s.introduced = false
	if s.manners != nil && s.manners.Forgetful {
		s.forget()
	}
	if s.ever == 0 {
		s.open(Cluster)
		return
	}
	for t := range NumTypes {
		parent, named := t.parent()
		if s.ever.has(t) && (!named || s.tables[parent].refers > 0) {
			s.open(t)
		}
	}
}

// forget makes the sidecar one that has never been connected.
func (s *Sidecar) forget() {
	s.ever = 0
	for t := range s.tables {
		s.tables[t] = s.loop.empty
	}
	if s.world != nil {
		*s.world = [NumTypes]worldState{}
	}
}

// open asks for a type for the first time on this stream, and says what versions it has.
func (s *Sidecar) open(t Type) {
	s.asked.add(t)
	s.ever.add(t)
	switch {
	case t.extra():
	case t.wildcard():
		s.waits.add(t)
	default:
		s.expect(t)
	}
	r := s.request(t)
	if s.world != nil {
		s.world[t].nonce = ""
		s.worldFields(&r, t)
		s.queue(r)
		return
	}
	s.names(&r, t)
	if held := s.tables[t]; held.size() > 0 {
		r.held = held
		s.loop.stats.Types[t].Reported += uint64(held.size())
	}
	s.queue(r)
}

// request begins a request, with the node if it is the stream's first.
func (s *Sidecar) request(t Type) request {
	r := request{typ: t, delta: s.world == nil}
	if !s.introduced {
		s.introduced = true
		r.node(s.loop.node(s.identity))
	}
	r.text(t.URL(), deltaTypeURL, worldTypeURL)
	return r
}

// worldState is what state of the world remembers of a type: what it last received, and what it last took.
type worldState struct{ nonce, version string }

// worldFields makes a request say all that one must in state of the world.
func (s *Sidecar) worldFields(r *request, t Type) {
	if v := s.world[t].version; v != "" {
		r.text(v, 0, worldVersion)
	}
	if n := s.world[t].nonce; n != "" {
		r.text(n, 0, worldNonce)
	}
	s.names(r, t)
}

// answer accepts or refuses a response, at once or later.
func (s *Sidecar) answer(t Type, in *incoming) {
	r := s.request(t)
	if s.world != nil {
		s.world[t].nonce = string(in.nonce)
		s.worldFields(&r, t)
	} else {
		r.bytes(in.nonce, deltaNonce, worldNonce)
	}
	of := &s.loop.stats.Types[t]
	if in.refusal != "" {
		r.refuse(in.refusal)
		of.Nacks++
	} else {
		of.Acks++
	}
	if s.manners != nil && s.manners.AckAfter > 0 {
		s.after(s.manners.AckAfter, func(s *Sidecar) { s.queue(r) })
		return
	}
	s.queue(r)
}

func (s *Sidecar) queue(r request) {
	of := &s.loop.stats.Types[r.typ]
	of.Requests++
	of.RequestBytes += uint64(r.size())
	if s.out == nil {
		s.out = &outbox{}
	}
	s.out.queue = append(s.out.queue, r)
}

// updateSynced tells whether all is there that was asked for.
func (s *Sidecar) updateSynced() {
	s.setSynced(s.answered && s.waits == 0 && s.asked.has(Listener) && s.has(Endpoint) && s.has(Route) &&
		(s.tables[Route].vhds == 0 || s.world != nil || s.asked.has(VirtualHost)))
}
