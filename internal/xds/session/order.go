package session

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// The order of one step, make before break:
//
//	at once   clusters, then their endpoints, then secrets, in one burst
//	then      listeners, then their filters, then routes, then virtual hosts, then names, when the
//	          clusters are ACKed
//	last      removals: clusters, when listeners and routes are ACKed and replaced listeners have
//	          drained; then endpoints, virtual hosts of tables that go, routes, secrets and
//	          filters
//
// Envoy withholds the ACK of clusters while a cluster warms. Virtual hosts of new services do not
// wait for it (early.go).
//
// The phases and the types in each are the table in resource/type.go. What a phase does beside
// sending is here.
//
// Nothing waits for an ACK longer than Options.Hold: a cluster that never warms must not stop a
// proxy's routes.

// hold is the wait of one phase.
type hold struct {
	since time.Time // zero if nothing waits
	until time.Time // when to look again; zero if only a request can end the wait
}

// isOver reports whether the wait is over: at the time wait, or the limit after it began if that is
// earlier.
func (h *hold) isOver(now, wait time.Time, limit time.Duration) bool {
	h.until = time.Time{}
	if h.since.IsZero() {
		h.since = now
	}
	deadline := h.since.Add(limit)
	if !wait.After(now) || !deadline.After(now) {
		return true
	}
	h.until = wait
	if deadline.Before(wait) {
		h.until = deadline
	}
	return false
}

// advance sends everything that may go now. It is the end of every event.
func (s *Session) advance(now time.Time) []Response {
	if s.state.IsNone() {
		return nil
	}
	e := &emission{session: s, now: now}
	e.probe()
	var clusters []emitted
	// No cluster goes without its endpoints.
	endpoints, members := &s.types[resource.Endpoint], &s.types[resource.LbEndpoint]
	if !s.idle.has(resource.Cluster) && max(len(endpoints.unanswered), len(members.unanswered)) < maxOutstanding {
		clusters = e.push(resource.Cluster, nil)
	}
	e.push(resource.Endpoint, s.oweEndpoints(clusters))
	e.writeRequestedMembers()
	e.push(resource.Secret, nil)
	if s.maySendDependants(now) {
		if listeners := e.push(resource.Listener, nil); slices.ContainsFunc(listeners, emitted.any) {
			s.types[resource.Route].replay = true
		}
		e.push(resource.Filter, nil)
		e.push(resource.Route, nil)
		e.pushVirtualHosts()
		e.push(resource.Name, nil)
	} else {
		e.pushNewHostsEarly()
	}
	if s.mayRemove(now) {
		if clusters := e.pushRemovals(resource.Cluster); len(clusters) > 0 {
			e.push(resource.Endpoint, s.oweEndpoints(clusters)) // a full list may have more than the removals
		}
		if s.mayRemoveRest(now) {
			for _, t := range resource.RemovalsIn(resource.RemoveRest) {
				e.pushRemovals(t)
			}
		}
	}
	s.seal(e, sealAfter)
	s.updateDerived(now)
	return e.out
}

// maySendDependants reports whether listeners and routes may go: the client has asked for clusters
// and has ACKed those that they may name.
func (s *Session) maySendDependants(now time.Time) bool {
	if !s.dependantsDue() {
		s.dependants = hold{}
		return true
	}
	wait := s.answerDeadline(resource.Cluster, anyResponse)
	if due, _ := s.pending(resource.Cluster); due { // held back by maxOutstanding, or by the order of retries
		wait = latest(wait, now.Add(s.opt.Hold))
	}
	if s.isReconnect && s.openedAt.IsZero() {
		wait = latest(wait, now.Add(s.opt.Hold))
	}
	if !s.dependants.isOver(now, wait, s.opt.Hold) {
		return false
	}
	s.dependants = hold{}
	return true
}

func (s *Session) dependantsDue() bool {
	for _, t := range resource.UpsertsIn(resource.Refer) {
		if due, _ := s.pending(t); due {
			return true
		}
	}
	return false
}

// mayRemove reports whether what nothing names any more may be removed: the client has accepted all
// listeners and routes, and replaced listeners have drained. The limit keeps a client that is never
// quite up to date from keeping everything. It is two Holds and a Drain: one Hold for what removals
// wait for to be sent, and one for its ACK.
func (s *Session) mayRemove(now time.Time) bool {
	if !s.removalsDue() {
		s.removals = hold{}
		return false
	}
	var wait time.Time
	for _, t := range resource.UpsertsIn(resource.Refer) {
		wait = latest(wait, s.answerDeadline(t, anyResponse))
	}
	if !s.reconciledBy(now, wait) {
		wait = latest(wait, s.openedAt.Add(s.opt.Hold))
	}
	if routes := &s.types[resource.Route]; !routes.sub.covers(routes.set) {
		wait = latest(wait, s.routesAskedUntil)
	}
	limit := 2*s.opt.Hold + s.opt.Drain
	return s.removals.isOver(now, latest(wait, s.drainedAt), limit) && !s.dependantsDue()
}

func (s *Session) removalsDue() bool {
	for _, phase := range []resource.Phase{resource.RemoveClusters, resource.RemoveRest} {
		for _, t := range resource.RemovalsIn(phase) {
			if _, removals := s.pending(t); removals {
				return true
			}
		}
	}
	return false
}

// reconciledBy reports whether a new stream's listeners and routes have been brought up to date
// once, or have had a Hold for it. Until then the client may use clusters that only its last stream
// knew.
func (s *Session) reconciledBy(now, wait time.Time) bool {
	if s.reconciled || s.openedAt.IsZero() {
		return true
	}
	asked := s.types[resource.Listener].started && s.types[resource.Route].started && !s.awaitsVirtualHosts()
	s.reconciled = asked && !wait.After(now) && !s.dependantsDue() || !s.openedAt.Add(s.opt.Hold).After(now)
	return s.reconciled
}

// mayRemoveRest reports whether what depends on clusters may be removed: the removal of the
// clusters is ACKed. With that the client ends its subscriptions, so that mostly nothing is left to
// send.
func (s *Session) mayRemoveRest(now time.Time) bool {
	wait := s.answerDeadline(resource.Cluster, func(r *sentResponse) bool { return r.hasRemovals })
	return s.removals.isOver(now, wait, 2*s.opt.Hold+s.opt.Drain)
}

// probe sends an empty response for endpoints to a client that reported the right endpoints and
// then does not go on. The client may have lost its last stream between a cluster and the endpoints
// sent behind it. Then the cluster warms, and the client does not ask again for endpoints that it
// has asked for before. Meanwhile Envoy ACKs no clusters, or, while it starts, does not ask for
// listeners. Such a client is sent all endpoints again, once a stream.
//
// But the client may also have gone on long ago, and this side is too busy to have read it; and
// sending everything to a whole mesh would keep it busy. The client answers the probe behind all
// that it said before. What it has not said by then, it does not say. Half a Hold leaves it time
// before routes stop waiting.
func (e *emission) probe() {
	ts := &e.session.types[resource.Endpoint]
	at := e.session.probeAt()
	if at.IsZero() || at.After(e.now) || !e.maySend(ts) {
		return
	}
	e.respond(ts, sentResponse{base: ts.held.base, isProbe: true}, Response{})
}

// handleProbeAnswer takes the answer to the probe with the given nonce number.
func (s *Session) handleProbeAnswer(number uint64) {
	clusters := s.types[resource.Cluster].unanswered
	if len(clusters) > 0 && clusters[0].number < number || s.isStarting() {
		s.resendEndpoints()
	}
}

// resendEndpoints sends all endpoints again, whatever the client reported.
func (s *Session) resendEndpoints() {
	s.trustsEndpoints = false
	s.oweAll(&s.types[resource.Endpoint])
}

// probeAt returns when to probe the client. It is zero if the client is not silent, or will be
// heard of anyway.
func (s *Session) probeAt() time.Time {
	if !s.trustsEndpoints {
		return time.Time{}
	}
	clusters, endpoints := s.types[resource.Cluster].unanswered, s.types[resource.Endpoint].unanswered
	switch {
	case s.isEndpointWindowFull(), // an answer will come, or none at all
		slices.ContainsFunc(endpoints, func(r *sentResponse) bool { return r.isProbe }):
	case len(clusters) > 0:
		return clusters[0].at.Add(s.opt.Hold / 2)
	case s.isStarting():
		return s.openedAt.Add(s.opt.Hold / 2)
	}
	return time.Time{}
}

// isEndpointWindowFull reports whether so much of the endpoints is unanswered that no response with
// endpoints may go.
func (s *Session) isEndpointWindowFull() bool {
	return len(s.types[resource.Endpoint].unanswered) >= maxOutstanding ||
		s.awaitsAnswer.has(resource.LbEndpoint) && len(s.types[resource.LbEndpoint].unanswered) >= maxOutstanding
}

// isStarting reports whether the client has asked for clusters and not for listeners.
func (s *Session) isStarting() bool {
	return !s.openedAt.IsZero() && !s.types[resource.Listener].started
}

// answerDeadline returns until when to wait for the ACK of the matching responses. It is zero if
// there are none.
func (s *Session) answerDeadline(t resource.Type, match func(*sentResponse) bool) time.Time {
	var until time.Time
	for _, r := range s.of(t).unanswered {
		if match(r) {
			until = latest(until, r.at.Add(s.opt.Hold))
		}
	}
	return until
}

func anyResponse(*sentResponse) bool { return true }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
