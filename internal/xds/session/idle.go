package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// A push mostly concerns one type, and so does its ACK. A session has seven typeStates or more of
// several cache lines each, which nobody else has read since the last push. With thousands of
// sessions, fetching these lines is what a push costs. So a session knows which types are idle, and
// does not look at their state.

// typeSet is a set of types, one bit for each.
type typeSet uint16

const _ = typeSet(1 << (resource.NumTypes - 1)) // all have one

func (s typeSet) has(t resource.Type) bool { return s&(1<<t) != 0 }

func (s *typeSet) add(t resource.Type) { *s |= 1 << t }

func (s *typeSet) remove(t resource.Type) { *s &^= 1 << t }

// wake has the next event look at a type that was idle.
func (s *Session) wake(t resource.Type) { s.idle.remove(t) }

// wakeAll has all types looked at, after an event that may concern any of them.
func (s *Session) wakeAll() { s.idle = 0 }

// isIdle reports whether nothing is to be done for a type until it is woken: the client has exactly
// what it should, or is about to, and refusals left nothing behind. due and removals are what
// pending returns.
func (ts *typeState) isIdle(due, later bool) bool {
	return !due && !later && ts.nacks == noNacks && len(ts.held.exceptions) == 0
}

// pending reports whether there is something to send now of a type, and something to remove later.
func (s *Session) pending(t resource.Type) (due, removals bool) {
	if s.idle.has(t) {
		return false, false
	}
	return s.of(t).pending()
}

// acknowledges reports whether a request only accepts a response. It then concerns no other type,
// unless handleAnswer says so.
func (s *Session) acknowledges(ts *typeState, req *Request) bool {
	return s.opt.Protocol == Delta && ts.started && req.Nonce != "" && req.Nack == nil && req.Lists == nil &&
		len(req.Subscribe)+len(req.Unsubscribe)+len(req.InitialVersions) == 0
}

// staysIdle reports whether a type is idle and another state has the same set of it.
func (s *Session) staysIdle(t resource.Type, before, after resource.State) bool {
	return s.idle.has(t) && before.Set(t) == after.Set(t) &&
		// Whole tables contain virtual hosts.
		(t != resource.Route || s.vhds || before.Set(resource.VirtualHost) == after.Set(resource.VirtualHost))
}
