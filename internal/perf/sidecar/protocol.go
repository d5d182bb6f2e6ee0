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

// wildcard reports whether the type is subscribed to without names.
func (t Type) wildcard() bool {
	return t == Cluster || t == Listener || t == VirtualHost || t == NameTable
}

// parent returns the type whose resources name those of this type.
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

// child returns the type that the resources of this type name.
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

// Fields of DeltaDiscoveryResponse and DiscoveryResponse, of which only what is in common has the
// same numbers by accident.
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

// incoming is a response of which a part has come.
type incoming struct {
	message             message
	url, nonce, version []byte
	edits               []edit
	typ                 Type // of the resources
	digest              uint64
	resources, removed  int
	rejectReason        string // why it will be refused
}

// keepEdits and keepField bound the buffers that an incoming keeps for the next response.
const keepEdits, keepField = 8192, 64 << 10

func (in *incoming) reset() {
	clear(in.edits)
	*in = incoming{
		message: in.message,
		url:     in.url[:0],
		nonce:   in.nonce[:0],
		version: in.version[:0],
		edits:   in.edits[:0],
		typ:     NumTypes,
	}
	if cap(in.edits) > keepEdits {
		in.edits = nil
	}
	if cap(in.message.field) > keepField {
		in.message.field = nil
	}
}

// field handles a field of a response.
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
		if s.sotw == nil {
			name := string(v)
			hash := nameHash(name)
			in.removed++
			in.edits = append(in.edits, edit{hash: hash, name: name})
			in.digest = mix(in.digest, hash+1)
		}
	}
	return nil
}

// resource handles a Resource, or in state of the world an Any. An unreadable one makes the sidecar
// refuse the response.
func (s *Sidecar) resource(v []byte) error {
	in := s.in
	in.resources++
	f := received{responseVersion: in.version}
	body := v
	if s.sotw == nil {
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
			// A resource without a body answers an on-demand request (VHDS). Sidecars make none, so
			// ignore it.
			return err
		}
	}
	url, value, err := anyFields(body)
	if err != nil {
		return err
	}
	t, known := typeOf(url)
	if !known || in.typ != NumTypes && in.typ != t {
		in.rejectReason = fmt.Sprintf("a resource %q has the type URL %q", f.name, url)
		return nil
	}
	in.typ, f.typ, f.body = t, t, value
	e, err := s.loop.intern(&f)
	if err != nil {
		in.rejectReason = fmt.Sprintf("%s %q: %v", t, f.name, err)
		return nil
	}
	in.edits = append(in.edits, edit{hash: e.hash, name: e.name, entry: e})
	in.digest = mix(in.digest, e.key)
	return nil
}

// complete handles a whole response: it sends the requests that follow from it and then the answer,
// in Envoy's order.
func (s *Sidecar) complete(size int) error {
	in, stats := s.in, &s.loop.stats
	defer in.reset()
	s.responses++
	s.firstResponse()
	t, known := typeOf(in.url)
	if !known || !s.requested.has(t) {
		stats.Unknown++
		return nil
	}
	of := &stats.Types[t]
	of.Responses++
	of.Bytes += uint64(size)
	of.Resources += uint64(in.resources)
	of.Removed += uint64(in.removed)
	if in.typ != NumTypes && in.typ != t && in.rejectReason == "" {
		in.rejectReason = fmt.Sprintf("resources of type %s in a response of type %s", in.typ, t)
	}
	if in.rejectReason == "" && s.faults != nil && s.random() < s.faults.NackShare {
		in.rejectReason = "refused, as the share of refusals demands"
	}
	s.unanswered.remove(t)
	if in.rejectReason == "" {
		s.take(t, in)
	}
	s.respond(t, in)
	s.updateSynced()
	return nil
}

// take applies a response to what the sidecar holds.
func (s *Sidecar) take(t Type, in *incoming) {
	if s.sotw != nil {
		s.sotw[t].version = string(in.version)
	}
	if t == Collection {
		s.loop.members.report(s, in.edits)
		s.loop.members.reportWhole(s, s.asked.answer(in.edits))
		s.openNext() // versions of members are not reported, so members need not be held
		return
	}
	if _, named := t.parent(); named {
		for i, e := range in.edits {
			if e.entry == nil {
				in.edits[i].entry = s.loop.absentEntry(t, e.name)
			}
		}
	}
	was := s.tables[t]
	from := was
	if s.sotw != nil && t.wildcard() {
		from = s.loop.empty // what a state of the world omits is removed
	}
	is := s.loop.apply(from, in.edits, in.digest)
	s.tables[t] = is
	s.countAnswered(t, was, in.edits)
	s.reportMarks(was, is, in.edits)
	s.updateReferences(t, was, is)
	if t == Endpoint {
		s.asked.named(in.edits)
	}
}

// reportMarks reports marked resources that are new to the sidecar, and those that it held and were
// removed.
func (s *Sidecar) reportMarks(was, is *table, edits []edit) {
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
	if s.sotw == nil || was.marked == 0 {
		return
	}
	var at position
	for e := was.next(&at); e != nil; e = was.next(&at) {
		if e.mark != 0 && is.get(e.hash, e.name) == nil {
			l.options.Arrived(Arrival{Sidecar: s, Mark: e.mark, Removed: true, At: l.readAt})
		}
	}
}

// updateReferences subscribes to names that the resources of a type now refer to, and unsubscribes
// from the others.
func (s *Sidecar) updateReferences(t Type, was, is *table) {
	if child, ok := t.child(); ok && was != is {
		step := s.loop.refDiff(was, is)
		if len(step.removed) > 0 {
			edits, digest := make([]edit, len(step.removed)), uint64(0)
			for i, name := range step.removed {
				edits[i] = edit{hash: nameHash(name), name: name}
				digest = mix(digest, edits[i].hash+1)
			}
			before := s.tables[child]
			s.tables[child] = s.loop.apply(before, edits, digest)
			s.countReferred(t, before, step)
			s.subscribe(child, step)
			s.updateReferences(child, before, s.tables[child])
		} else if len(step.added) > 0 {
			s.countReferred(t, s.tables[child], step)
			s.subscribe(child, step)
		}
	}
	s.openNext()
}

func (s *Sidecar) subscribe(t Type, step refDiff) {
	if len(step.added) > 0 {
		s.settled.remove(t)
		s.timedOut.remove(t)
		s.expect(t)
	}
	if t == Collection {
		s.asked.follow(step)
	}
	switch {
	case !s.requested.has(t):
		s.open(t)
	case s.sotw != nil:
		r := s.request(t)
		s.setSotWFields(&r, t)
		s.queue(r)
	default:
		r := s.request(t)
		r.names, r.unsubscribe = step.added, step.removed
		s.queue(r)
	}
}

// openNext subscribes to the next types once the types before them are ready.
func (s *Sidecar) openNext() {
	s.updateAnswered(Cluster, Endpoint)
	s.updateAnswered(Listener, Route)
	if len(s.asked) == 0 {
		s.settled.add(Collection)
	}
	if !s.requested.has(Listener) && s.isReady(Endpoint) {
		s.openOptional()
		s.open(Listener)
	}
	if !s.requested.has(VirtualHost) && s.tables[Route].vhds > 0 && s.sotw == nil {
		s.open(VirtualHost)
	}
}

// isReady reports whether all names of a type have been answered or have timed out.
func (s *Sidecar) isReady(t Type) bool { return s.settled.has(t) || s.timedOut.has(t) }

// begin makes the first subscriptions of a stream: to clusters, or after a reconnect to everything
// subscribed to before.
func (s *Sidecar) begin() {
	s.requested, s.unanswered, s.settled, s.timedOut, s.timerSet = 0, 0, 0, 0, 0
	s.asked = nil // Envoy keeps the members it has
	s.introduced = false
	if s.faults != nil && s.faults.ForgetsVersions {
		s.forget()
	}
	if s.everRequested == 0 {
		s.open(Cluster)
		return
	}
	for t := range NumTypes {
		parent, named := t.parent()
		if s.everRequested.has(t) && (!named || s.tables[parent].refers > 0) {
			s.open(t)
		}
	}
}

// forget resets the sidecar to its state before the first connection.
func (s *Sidecar) forget() {
	s.everRequested = 0
	s.missing = [2]int32{}
	for t := range s.tables {
		s.tables[t] = s.loop.empty
	}
	if s.sotw != nil {
		*s.sotw = [NumTypes]sotwState{}
	}
}

// open makes the first subscription of a stream to a type, and reports the versions it has.
func (s *Sidecar) open(t Type) {
	s.requested.add(t)
	s.everRequested.add(t)
	switch {
	case t.isOptional():
	case t.wildcard():
		s.unanswered.add(t)
	default:
		s.expect(t)
	}
	r := s.request(t)
	if s.sotw != nil {
		s.sotw[t].nonce = ""
		s.setSotWFields(&r, t)
		s.queue(r)
		return
	}
	s.setNames(&r, t)
	if held := s.tables[t]; held.size() > 0 {
		r.versions = held
		s.loop.stats.Types[t].Reported += uint64(held.size())
	}
	s.queue(r)
}

// request begins a request. The first one of a stream contains the node.
func (s *Sidecar) request(t Type) request {
	r := request{typ: t, delta: s.sotw == nil}
	if !s.introduced {
		s.introduced = true
		r.node(s.loop.node(s.identity))
	}
	r.text(t.URL(), deltaTypeURL, sotwTypeURL)
	return r
}

// sotwState is the nonce last received and the version last accepted of a type in state of the
// world.
type sotwState struct{ nonce, version string }

// setSotWFields fills in what each request contains in state of the world.
func (s *Sidecar) setSotWFields(r *request, t Type) {
	if v := s.sotw[t].version; v != "" {
		r.text(v, 0, sotwVersion)
	}
	if n := s.sotw[t].nonce; n != "" {
		r.text(n, 0, sotwNonce)
	}
	s.setNames(r, t)
}

// respond accepts or refuses a response, at once or after AckDelay.
func (s *Sidecar) respond(t Type, in *incoming) {
	r := s.request(t)
	if s.sotw != nil {
		s.sotw[t].nonce = string(in.nonce)
		s.setSotWFields(&r, t)
	} else {
		r.bytes(in.nonce, deltaNonce, sotwNonce)
	}
	of := &s.loop.stats.Types[t]
	if in.rejectReason != "" {
		r.refuse(in.rejectReason)
		of.Nacks++
	} else {
		of.Acks++
	}
	if s.faults != nil && s.faults.AckDelay > 0 {
		s.after(s.faults.AckDelay, func(s *Sidecar) { s.queue(r) })
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

// updateSynced records whether the sidecar has everything it asked for.
func (s *Sidecar) updateSynced() {
	s.setSynced(s.answered && s.unanswered == 0 && s.requested.has(Listener) && s.isReady(Endpoint) &&
		s.isReady(Route) && s.isReady(Collection) &&
		(s.tables[Route].vhds == 0 || s.sotw != nil || s.requested.has(VirtualHost)))
}
