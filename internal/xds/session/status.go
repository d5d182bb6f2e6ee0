package session

import (
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Status is where the session stands with each type.
func (s *Session) Status() [resource.NumTypes]TypeStatus {
	var out [resource.NumTypes]TypeStatus
	for t := range s.channels {
		c := &s.channels[t]
		st := TypeStatus{
			Subscribed: c.started, Sent: c.nonce(c.lastSent), Acked: c.nonce(uint64(c.lastAcked)), SentAt: timeOf(c.sentAt),
			Generation: c.accepted, Nack: c.trouble.nack, Quarantined: slices.Sorted(maps.Keys(c.trouble.refused)), Withheld: c.withheld(),
		}
		if c.started && c.behind == 0 && len(c.sent) == 0 && !s.state.IsNone() {
			st.Generation, st.Settled = s.state.Generation(), true
		}
		if c.started {
			st.Resources, st.Bytes = c.amount()
		}
		out[t] = st
	}
	return out
}

// withheld are the names of which the client keeps something older because of what it lacks, sorted.
func (c *channel) withheld() []string {
	var names []string
	for _, name := range c.held.names() {
		if c.withholds(name, c.held.except[name]) {
			names = append(names, name)
		}
	}
	return names
}

// amount is how many resources the client holds, and their bytes. Stand-ins do not count.
func (c *channel) amount() (resources, size int) {
	base := c.held.base
	switch {
	case c.covers(base):
		resources, size = base.Len(), base.Size()
	case c.typ == resource.VirtualHost:
		for r := range base.All() {
			if c.wants(r.Name()) {
				resources, size = resources+1, size+r.Size()
			}
		}
	case c.sub.base.Equal(base):
		resources, size = base.Len()-len(c.sub.minus), base.Size()
		for name := range c.sub.minus {
			size -= base.Get(name).Size()
		}
	default:
		c.sub.each(func(name string) {
			if r := base.Get(name); r != nil {
				resources, size = resources+1, size+r.Size()
			}
		})
	}
	for name, h := range c.held.except {
		if r := base.Get(name); r != nil && c.wants(name) {
			resources, size = resources-1, size-r.Size()
		}
		if h.resource != nil {
			resources, size = resources+1, size+h.resource.Size()
		}
	}
	return resources, size
}

// InSync tells that the client has accepted all that it should have: nothing waits to be sent, to be answered, or is
// kept from it because it refused it.
func (s *Session) InSync() bool {
	for t := range s.channels {
		if c := &s.channels[t]; c.behind != 0 || len(c.sent) > 0 || len(c.trouble.refused) > 0 {
			return false
		}
	}
	return !s.state.IsNone()
}

// AckedGeneration is the newest generation of which the client has answered every response. One that had nothing for
// this client counts at once. What the client refused and is kept from it counts as answered, when it has accepted
// the rest; Status says so.
func (s *Session) AckedGeneration() uint64 { return s.acked }

// ExpiredNonces counts requests that answer a response which is not outstanding: it was answered before, or belongs to another
// stream. They do no harm; many of them tell of a client with a mistake.
func (s *Session) ExpiredNonces() uint64 { return s.expired }

// Exceptions is how many names the session keeps for itself rather than with its class: 0 once it is settled.
func (s *Session) Exceptions() int {
	n := len(s.warming.names) + len(s.fresh)
	for t := range s.channels {
		c := &s.channels[t]
		n += c.sub.exceptions() + len(c.held.except) + len(c.trouble.refused) + len(c.trouble.retries)
	}
	return n
}

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// account brings what is derived from the channels up to date.
func (s *Session) account(now time.Time) {
	acked := s.state.Generation()
	removals := false
	s.paced = time.Time{}
	for t := range resource.NumTypes {
		c := &s.channels[t]
		if !s.still.has(t) {
			due, later := s.appraise(c, now)
			removals = removals || later
			s.begun = s.begun || c.started
			if c.behind != 0 {
				acked = min(acked, c.behind-1)
			}
			if c.isStill(due, later) {
				s.still.add(t)
			}
		}
		if s.awaits.has(t) {
			for _, r := range c.sent {
				acked = min(acked, r.generation-1)
			}
		}
	}
	if !removals {
		s.removals = hold{}
	}
	if s.begun {
		s.acked = max(s.acked, acked)
	}
}

// appraise brings what is derived from one channel up to date, and tells what outlook does.
func (s *Session) appraise(c *channel, now time.Time) (due, later bool) {
	due, later = c.outlook()
	if s.opt.Protocol == StateOfTheWorld && c.typ.Wildcard() && (due || later) {
		if at := s.unanswered(c.typ, all); at.After(now) {
			s.paced = latest(s.paced, at)
		}
	}
	switch {
	case !due && !later:
		c.behind = 0
	case c.behind == 0:
		c.behind = s.state.Generation()
	}
	if c.behind == 0 && len(c.sent) == 0 && len(c.trouble.refused) == 0 && len(c.trouble.retries) == 0 && c.trouble.nack != "" {
		c.troubled().nack = "" // what it refused is not asked of it any more: it has what it should, perhaps since before
	}
	c.calm()
	return due, later
}
