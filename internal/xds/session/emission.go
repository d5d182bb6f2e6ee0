package session

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// emission collects the responses of one event.
type emission struct {
	session *Session
	now     time.Time
	out     []Response
}

// emitted are the upserts of a batch that may be a change to the client, in two lists.
type emitted [2][]*resource.Resource

func (e emitted) any() bool { return len(e[0])+len(e[1]) > 0 }

// push sends what is due of a type. It returns what was sent of clusters and listeners; nobody
// needs that of other types.
func (e *emission) push(t resource.Type, offers []*resource.Resource) []emitted {
	ts := e.session.of(t)
	if e.session.idle.has(t) && len(offers) == 0 || !e.maySend(ts) {
		return nil
	}
	b := ts.compare(e.session.opt.Differ, offers)
	var all []emitted
	note := func(sent emitted) {
		if t == resource.Cluster || t == resource.Listener {
			all = append(all, sent)
		}
	}
	if !b.isEmpty() || ts.responseDue {
		note(e.write(ts, &b))
	}
	ts.responseDue = false
	e.session.oweVirtualHosts(b.renewedTables)
	for len(ts.nacks.retries) > 0 && e.maySend(ts) {
		b := ts.retry()
		if !b.isEmpty() {
			note(e.write(ts, &b))
		}
		e.session.oweVirtualHosts(b.renewedTables)
	}
	return all
}

// pushRemovals sends the removals of a type that compare left behind. It returns what push does.
func (e *emission) pushRemovals(t resource.Type) []emitted {
	ts := e.session.of(t)
	if e.session.idle.has(t) || !e.maySend(ts) {
		return nil
	}
	b := ts.deferredRemovals()
	if b.isEmpty() {
		return nil
	}
	return []emitted{e.write(ts, &b)}
}

// maySend reports whether a response of the type may go. A full response waits for the answer to
// the one before, for a Hold at most: so a refusal is about what it says. Virtual hosts wait for it
// while a culprit is looked for among them.
func (e *emission) maySend(ts *typeState) bool {
	if !ts.started || len(ts.unanswered) >= maxOutstanding {
		return false
	}
	if ts.typ == resource.VirtualHost && len(ts.nacks.retries) > 0 && len(ts.unanswered) > 0 {
		return false
	}
	if ts.typ == resource.Endpoint && e.session.isEndpointWindowFull() {
		return false
	}
	return !e.isFullState(ts) || !e.session.answerDeadline(ts.typ, anyResponse).After(e.now)
}

// isFullState reports whether each response has all that the client is to have of the type.
func (e *emission) isFullState(ts *typeState) bool {
	return e.session.opt.Protocol == StateOfTheWorld && ts.typ.Wildcard()
}

// write makes responses of a batch. What all sessions of a class send goes unchanged, so that they
// share it. What is due to this client alone goes in a response of its own behind it.
func (e *emission) write(ts *typeState, b *batch) emitted {
	if ts.typ != resource.Endpoint || e.session.leds.minEndpoints == 0 {
		return e.writeAll(ts, b)
	}
	strides := e.takeLEDSSteps(b)
	if len(strides) == 0 {
		return e.writeAll(ts, b)
	}
	if !b.isEmpty() {
		e.writeAll(ts, b)
	}
	e.writeMembers(b, strides)
	return emitted{}
}

// writeAll writes what does not go in LEDS form.
func (e *emission) writeAll(ts *typeState, b *batch) emitted {
	record := sentResponse{
		hasRemovals: len(b.removed) > 0,
		base:        b.base,
		before:      b.before,
		isRetry:     b.isRetry,
		mixedTable:  b.mixedTable,
	}
	switch {
	case e.isFullState(ts):
		change, list := ts.fullList(e.session.opt.Differ)
		record.upserts = merge(b.upserts, b.extras)
		ts.addUnanswered(&record, list)
		if record.unconfirmed = ts.nacks.unconfirmed; len(record.unconfirmed) > 0 {
			ts.ownNacks().unconfirmed = nil
		}
		e.respond(ts, record, Response{Upserts: list, Shared: change})
		return emitted{record.upserts, record.unconfirmed}
	case e.session.opt.Protocol == StateOfTheWorld:
		if len(b.upserts)+len(b.extras) == 0 {
			return emitted{} // this variant cannot express a removal
		}
	default:
		record.removed = b.removed
	}
	record.offered = b.offered
	if b.change == nil || len(b.extras) == 0 {
		e.split(ts, record, merge(b.upserts, b.extras), b.change)
		return emitted{b.upserts, b.extras}
	}
	if ts.typ == resource.VirtualHost { // a domain must move within one response
		e.split(ts, record, merge(b.upserts, b.extras), nil)
		return emitted{}
	}
	first := record
	first.removed, first.hasRemovals = nil, false
	e.split(ts, first, b.upserts, b.change)
	e.split(ts, record, b.extras, nil)
	return emitted{b.upserts, b.extras}
}

// split sends the resources in one response, or in as many as Options.MaxBytes demands (P24).
// Removals go with the last. Filters go one by one (P27): Envoy does not say which of several is
// wrong, and accepts a wrong one without using it when that is sent again. Removals of filters go
// before them: a removal ends what a refused filter does to listeners (1.16), and must not be
// refused with another one.
func (e *emission) split(ts *typeState, record sentResponse, upserts []*resource.Resource, change *resource.Change) {
	limit := int(e.session.opt.MaxBytes)
	if ts.typ == resource.VirtualHost {
		limit = 0 // a domain must move within one response
	}
	if ts.typ == resource.Filter && len(record.removed) > 0 && len(upserts) > 0 {
		e.respond(ts, record, Response{Removed: record.removed})
		record.removed, record.hasRemovals = nil, false
	}
	size, start := 0, 0
	for i, r := range upserts {
		if i > start && (ts.typ == resource.Filter || limit > 0 && size+r.Size() > limit) {
			part := record
			part.removed, part.hasRemovals, part.upserts = nil, false, upserts[start:i]
			e.respond(ts, part, Response{Upserts: part.upserts})
			size, start, change = 0, i, nil
		}
		size += r.Size()
	}
	record.upserts = upserts[start:]
	e.respond(ts, record, Response{Upserts: record.upserts, Removed: record.removed, Shared: change})
}

// respond sends one response.
func (e *emission) respond(ts *typeState, record sentResponse, r Response) {
	s := e.session
	r.Type = ts.typ
	r.Nonce = s.nonce(ts.letter())
	if s.opt.Protocol == StateOfTheWorld {
		r.Version = ts.versionOf(r.Nonce)
	}
	r.Generation = s.state.Generation()
	if r.Shared != nil && r.Shared.PerProxy {
		r.Shared = nil
	}
	kept := s.opt.Scratch.record()
	*kept = record
	kept.number = uint64(s.nonces)
	kept.nonce, kept.version, kept.at, kept.generation = r.Nonce, r.Version, e.now, r.Generation
	ts.unanswered = append(ts.unanswered, kept)
	s.awaitsAnswer.add(ts.typ)
	ts.lastSent, ts.sentAt = uint64(s.nonces), e.now.UnixNano()
	if e.out == nil {
		e.out = s.opt.Scratch.list()
	}
	e.out = append(e.out, r)
}

// merge merges two lists that are sorted by name and share no name.
func merge(a, b []*resource.Resource) []*resource.Resource {
	if len(b) == 0 {
		return a
	}
	if len(a) == 0 {
		return b
	}
	both := slices.Concat(a, b)
	slices.SortFunc(both, byName)
	return both
}
