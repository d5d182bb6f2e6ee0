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

func (e emitted) some() bool { return len(e[0])+len(e[1]) > 0 }

// push sends what is due of a type. It returns what was sent of clusters and listeners: others are not asked about.
func (e *emission) push(t resource.Type, offers []*resource.Resource) []emitted {
	c := &e.session.channels[t]
	if e.session.still.has(t) && len(offers) == 0 || !e.may(c) {
		return nil
	}
	b := c.compare(e.session.opt.Differ, offers)
	var all []emitted
	note := func(sent emitted) {
		if t == resource.Cluster || t == resource.Listener {
			all = append(all, sent)
		}
	}
	if !b.empty() || c.owed {
		note(e.write(c, &b))
	}
	c.owed = false
	e.session.oweHosts(b.renewed)
	for len(c.trouble.retries) > 0 && e.may(c) {
		b := c.retry()
		if !b.empty() {
			note(e.write(c, &b))
		}
		e.session.oweHosts(b.renewed)
	}
	return all
}

// pushRemovals sends the removals of a type that compare left for later. It returns what push does.
func (e *emission) pushRemovals(t resource.Type) []emitted {
	c := &e.session.channels[t]
	if e.session.still.has(t) || !e.may(c) {
		return nil
	}
	b := c.compareLater()
	if b.empty() {
		return nil
	}
	return []emitted{e.write(c, &b)}
}

// may tells whether a response of the type may go. One that states everything waits for the answer to the one before, at
// most a Hold: a refusal then is about what it says. So do virtual hosts while a culprit is looked for among them.
func (e *emission) may(c *channel) bool {
	if !c.started || len(c.sent) >= maxOutstanding {
		return false
	}
	if c.typ == resource.VirtualHost && len(c.trouble.retries) > 0 && len(c.sent) > 0 {
		return false
	}
	if c.typ == resource.Endpoint && e.session.awaits.has(resource.LbEndpoint) && len(e.session.channels[resource.LbEndpoint].sent) >= maxOutstanding {
		return false
	}
	return !e.isFull(c) || !e.session.unanswered(c.typ, all).After(e.now)
}

// isFull tells whether each response states all that the client is to have of the type.
func (e *emission) isFull(c *channel) bool {
	return e.session.opt.Protocol == StateOfTheWorld && c.typ.Wildcard()
}

// write makes responses of a batch. What all sessions of a class send goes as it is, so that they share it; what is due to
// this client alone goes in a response of its own behind it.
func (e *emission) write(c *channel, b *batch) emitted {
	if c.typ != resource.Endpoint || e.session.collections.from == 0 {
		return e.writeAll(c, b)
	}
	strides := e.collects(b)
	if len(strides) == 0 {
		return e.writeAll(c, b)
	}
	if !b.empty() {
		e.writeAll(c, b)
	}
	e.writeMembers(b, strides)
	return emitted{}
}

// writeAll is write for what goes as it is.
func (e *emission) writeAll(c *channel, b *batch) emitted {
	record := sent{shrinks: len(b.removed) > 0, from: b.from, before: b.before, retry: b.retry, mixed: b.mixed}
	switch {
	case e.isFull(c):
		change, list := c.full(e.session.opt.Differ)
		record.upserts = merge(b.upserts, b.others)
		c.suspect(&record, list)
		if record.shaken = c.trouble.shaken; len(record.shaken) > 0 {
			c.troubled().shaken = nil
		}
		e.respond(c, record, Response{Upserts: list, Shared: change})
		return emitted{record.upserts, record.shaken}
	case e.session.opt.Protocol == StateOfTheWorld:
		if len(b.upserts)+len(b.others) == 0 {
			return emitted{} // a removal cannot be said
		}
	default:
		record.removed = b.removed
	}
	record.offered = b.offered
	if b.change == nil || len(b.others) == 0 {
		e.split(c, record, merge(b.upserts, b.others), b.change)
		return emitted{b.upserts, b.others}
	}
	if c.typ == resource.VirtualHost { // a domain that moves does so within one response
		e.split(c, record, merge(b.upserts, b.others), nil)
		return emitted{}
	}
	first := record
	first.removed, first.shrinks = nil, false
	e.split(c, first, b.upserts, b.change)
	e.split(c, record, b.others, nil)
	return emitted{b.upserts, b.others}
}

// split sends the resources in one response, or in as many as Options.MaxBytes demands (P24). Removals go with the last.
func (e *emission) split(c *channel, record sent, upserts []*resource.Resource, change *resource.Change) {
	limit := int(e.session.opt.MaxBytes)
	if c.typ == resource.VirtualHost {
		limit = 0 // as above
	}
	size, start := 0, 0
	for i, r := range upserts {
		if limit > 0 && i > start && size+r.Size() > limit {
			part := record
			part.removed, part.shrinks, part.upserts = nil, false, upserts[start:i]
			e.respond(c, part, Response{Upserts: part.upserts})
			size, start, change = 0, i, nil
		}
		size += r.Size()
	}
	record.upserts = upserts[start:]
	e.respond(c, record, Response{Upserts: record.upserts, Removed: record.removed, Shared: change})
}

// respond sends one response.
func (e *emission) respond(c *channel, record sent, r Response) {
	s := e.session
	r.Type = c.typ
	r.Nonce = s.nonce(c.letter())
	if s.opt.Protocol == StateOfTheWorld {
		r.Version = c.versionOf(r.Nonce)
	}
	r.Generation = s.state.Generation()
	if r.Shared != nil && r.Shared.PerProxy {
		r.Shared = nil
	}
	kept := s.opt.Scratch.record()
	*kept = record
	kept.number = s.nonces
	kept.nonce, kept.version, kept.at, kept.generation = r.Nonce, r.Version, e.now, r.Generation
	c.sent = append(c.sent, kept)
	s.awaits.add(c.typ)
	c.lastSent, c.sentAt = s.nonces, e.now.UnixNano()
	if e.out == nil {
		e.out = s.opt.Scratch.list()
	}
	e.out = append(e.out, r)
}

// merge merges two lists that are sorted by name and have no name in common.
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
