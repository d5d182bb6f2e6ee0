package session

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Status returns where the session stands with each type.
func (s *Session) Status() [resource.NumTypes]TypeStatus {
	var out [resource.NumTypes]TypeStatus
	for t := range resource.NumTypes {
		ts := s.of(t)
		st := TypeStatus{
			Subscribed:  ts.started,
			Sent:        ts.nonce(ts.lastSent),
			Acked:       ts.nonce(uint64(ts.lastAcked)),
			SentAt:      timeOf(ts.sentAt),
			Generation:  ts.acceptedGeneration,
			Nack:        ts.nacks.message,
			Quarantined: slices.Sorted(maps.Keys(ts.nacks.quarantined)),
			Withheld:    ts.withheld(),
		}
		if ts.started && ts.behindSince == 0 && len(ts.unanswered) == 0 && !s.state.IsNone() {
			st.Generation, st.Settled = s.state.Generation(), true
		}
		if ts.started {
			st.Resources, st.Bytes = ts.count()
		}
		out[t] = st
	}
	return out
}

// withheld returns the names of which the client keeps something older because of what it lacks,
// sorted.
func (ts *typeState) withheld() []string {
	var names []string
	for _, name := range ts.held.exceptionNames() {
		if ts.withholds(name, ts.held.exceptions[name]) {
			names = append(names, name)
		}
	}
	return names
}

// count returns how many resources the client holds, and their bytes. Empty resources for names
// that the class lacks do not count.
func (ts *typeState) count() (resources, size int) {
	base := ts.held.base
	switch {
	case ts.covers(base):
		resources, size = base.Len(), base.Size()
	case ts.typ == resource.VirtualHost:
		for r := range base.All() {
			if ts.wants(r.Name()) {
				resources, size = resources+1, size+r.Size()
			}
		}
	case ts.sub.base.Equal(base):
		resources, size = base.Len()-len(ts.sub.minus), base.Size()
		for name := range ts.sub.minus {
			size -= base.Get(name).Size()
		}
	default:
		ts.sub.each(func(name string) {
			if r := base.Get(name); r != nil {
				resources, size = resources+1, size+r.Size()
			}
		})
	}
	for name, h := range ts.held.exceptions {
		if r := base.Get(name); r != nil && ts.wants(name) {
			resources, size = resources-1, size-r.Size()
		}
		if h.resource != nil {
			resources, size = resources+1, size+h.resource.Size()
		}
	}
	return resources, size
}

// InSync reports whether the client has accepted all that it should have: nothing waits to be sent
// or to be answered, and nothing is quarantined.
func (s *Session) InSync() bool {
	for t := range resource.NumTypes {
		if ts := s.of(t); ts.behindSince != 0 || len(ts.unanswered) > 0 || len(ts.nacks.quarantined) > 0 {
			return false
		}
	}
	return !s.state.IsNone()
}

// AckedGeneration returns the newest generation of which the client has answered every response. A
// generation that had nothing for this client counts at once. What is quarantined counts as
// answered when the client has accepted the rest; Status reports it.
func (s *Session) AckedGeneration() uint64 { return s.ackedGeneration }

// AnsweredGeneration returns the newest generation of which the client has answered every response
// but those that are held back on purpose, such as removals. It is AckedGeneration or newer.
func (s *Session) AnsweredGeneration() uint64 { return s.ackedGeneration + uint64(s.answeredAhead) }

// ExpiredNonces counts requests that answer a response which is not outstanding: it was answered
// before, or belongs to another stream. They do no harm; many of them are a sign of a client with a
// bug.
func (s *Session) ExpiredNonces() uint64 { return uint64(s.expiredNonces) }

// Exceptions returns how many names the session keeps for itself rather than with its class: 0 once
// it is settled.
func (s *Session) Exceptions() int {
	n := len(s.warming.names) + len(s.unansweredTables)
	for t := range resource.NumTypes {
		ts := s.of(t)
		n += ts.sub.exceptions() + len(ts.held.exceptions) + len(ts.nacks.quarantined) + len(ts.nacks.retries)
	}
	return n
}

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// updateDerived updates what is derived from the types: what is idle, and what the client has
// acknowledged.
func (s *Session) updateDerived(now time.Time) {
	acked, answered := s.state.Generation(), s.state.Generation()
	removals := false
	s.pacedUntil = time.Time{}
	for t := range resource.NumTypes {
		ts := s.of(t)
		if ts.session == nil { // nobody has asked for it
			s.idle.add(t)
			continue
		}
		if !s.idle.has(t) {
			due, later := s.updateType(ts, now)
			removals = removals || later
			s.hasSubscribed = s.hasSubscribed || ts.started
			if ts.behindSince != 0 {
				acked = min(acked, ts.behindSince-1)
			}
			if due {
				answered = min(answered, ts.behindSince-1)
			}
			if ts.isIdle(due, later) {
				s.idle.add(t)
			}
		}
		if s.awaitsAnswer.has(t) {
			for _, r := range ts.unanswered {
				acked, answered = min(acked, r.generation-1), min(answered, r.generation-1)
			}
		}
	}
	if !removals {
		s.removals = hold{}
	}
	if s.hasSubscribed {
		answered = max(s.AnsweredGeneration(), answered)
		s.ackedGeneration = max(s.ackedGeneration, acked)
		s.answeredAhead = uint32(min(answered-s.ackedGeneration, math.MaxUint32)) //nolint:gosec // bounded
	}
}

// updateType updates what is derived from one type, and returns what pending does.
func (s *Session) updateType(ts *typeState, now time.Time) (due, later bool) {
	due, later = ts.pending()
	if s.opt.Protocol == StateOfTheWorld && ts.typ.Wildcard() && (due || later) {
		if at := s.answerDeadline(ts.typ, anyResponse); at.After(now) {
			s.pacedUntil = latest(s.pacedUntil, at)
		}
	}
	switch {
	case !due && !later:
		ts.behindSince = 0
	case ts.behindSince == 0:
		ts.behindSince = s.state.Generation()
	}
	if ts.behindSince == 0 && len(ts.unanswered) == 0 &&
		len(ts.nacks.quarantined) == 0 && len(ts.nacks.retries) == 0 && ts.nacks.message != "" {
		ts.ownNacks().message = "" // the client has all that it should, so what it refused is over
	}
	ts.trimNacks()
	return due, later
}
