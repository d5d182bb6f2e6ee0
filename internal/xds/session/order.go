package session

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// The order of one step, make before break:
//
//	at once   clusters, then their endpoints, then secrets: one burst
//	then      listeners, then routes, then virtual hosts, when the clusters are ACKed; Envoy withholds that ACK while a cluster
//	          warms; virtual hosts of new services do not wait for it (ahead.go)
//	last      removals: clusters, when listeners and routes are ACKed and replaced listeners have drained; then
//	          endpoints, virtual hosts of tables that go, routes and secrets
//
// The phases and the types in each are the table in resource/type.go. What a phase does beside sending is here.
//
// Nothing waits for an ACK longer than Options.Hold: a cluster that never warms must not stop a proxy's routes.

// hold is the wait of one stage.
type hold struct {
	since time.Time // zero when nothing waits
	until time.Time // when to look again; zero when only a request can end the wait
}

// over tells whether the wait is over: at the time wait, and a limit after it began at the latest.
func (h *hold) over(now, wait time.Time, limit time.Duration) bool {
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
	e.rescue()
	var clusters []emitted
	if !s.still.has(resource.Cluster) && max(len(s.channels[resource.Endpoint].sent), len(s.channels[resource.LbEndpoint].sent)) < maxOutstanding { // no cluster without the endpoints it will wait for
		clusters = e.push(resource.Cluster, nil)
	}
	e.push(resource.Endpoint, s.oblige(clusters))
	e.writeAsked()
	e.push(resource.Secret, nil)
	if s.mayDependants(now) {
		if listeners := e.push(resource.Listener, nil); slices.ContainsFunc(listeners, emitted.some) {
			s.channels[resource.Route].replay = true
		}
		e.push(resource.Route, nil)
		e.pushHosts()
	} else {
		e.pushAhead()
	}
	if s.mayRemove(now) {
		if clusters := e.pushRemovals(resource.Cluster); len(clusters) > 0 {
			e.push(resource.Endpoint, s.oblige(clusters)) // a full list may hold more than the removals
		}
		if s.mayEmpty(now) {
			for _, t := range resource.RemovalsIn(resource.RemoveRest) {
				e.pushRemovals(t)
			}
		}
	}
	s.seal(e, sealAfter)
	s.account(now)
	return e.out
}

// mayDependants tells whether listeners and routes may go: when the clusters that they may name are ACKed, and asked for
// before that.
func (s *Session) mayDependants(now time.Time) bool {
	if !s.dependantsDue() {
		s.dependants = hold{}
		return true
	}
	wait := s.unanswered(resource.Cluster, all)
	if due, _ := s.outlook(resource.Cluster); due { // kept back by maxOutstanding, or by the order of retries
		wait = latest(wait, now.Add(s.opt.Hold))
	}
	if s.returns && s.opened.IsZero() {
		wait = latest(wait, now.Add(s.opt.Hold))
	}
	if !s.dependants.over(now, wait, s.opt.Hold) {
		return false
	}
	s.dependants = hold{}
	return true
}

func (s *Session) dependantsDue() bool {
	for _, t := range resource.UpsertsIn(resource.Refer) {
		if due, _ := s.outlook(t); due {
			return true
		}
	}
	return false
}

// mayRemove tells whether what nothing names any more may go: when the client has accepted all listeners and routes, and
// the listeners that were replaced have drained. The limit keeps a client that is never quite up to date from
// keeping everything: one Hold for what removals wait for, to be sent, and one to be ACKed.
func (s *Session) mayRemove(now time.Time) bool {
	if !s.removalsDue() {
		s.removals = hold{}
		return false
	}
	var wait time.Time
	for _, t := range resource.UpsertsIn(resource.Refer) {
		wait = latest(wait, s.unanswered(t, all))
	}
	if !s.reconciledBy(now, wait) {
		wait = latest(wait, s.opened.Add(s.opt.Hold))
	}
	if routes := &s.channels[resource.Route]; !routes.sub.covers(routes.set) {
		wait = latest(wait, s.routesAsked)
	}
	limit := 2*s.opt.Hold + s.opt.Drain
	return s.removals.over(now, latest(wait, s.drained), limit) && !s.dependantsDue()
}

func (s *Session) removalsDue() bool {
	for _, phase := range []resource.Phase{resource.RemoveClusters, resource.RemoveRest} {
		for _, t := range resource.RemovalsIn(phase) {
			if _, removals := s.outlook(t); removals {
				return true
			}
		}
	}
	return false
}

// reconciledBy tells whether a new stream's listeners and routes have been brought up to date once, or have had the time
// for it: until then the client may use clusters that only its last stream knew.
func (s *Session) reconciledBy(now, wait time.Time) bool {
	if s.reconciled || s.opened.IsZero() {
		return true
	}
	asked := s.channels[resource.Listener].started && s.channels[resource.Route].started && !s.awaitsHosts()
	s.reconciled = asked && !wait.After(now) && !s.dependantsDue() || !s.opened.Add(s.opt.Hold).After(now)
	return s.reconciled
}

// mayEmpty tells whether what hangs on clusters may go: when their own removal is ACKed, with which a client ends its
// subscription, so that mostly nothing is left to send.
func (s *Session) mayEmpty(now time.Time) bool {
	wait := s.unanswered(resource.Cluster, func(r *sent) bool { return r.shrinks })
	return s.removals.over(now, wait, 2*s.opt.Hold+s.opt.Drain)
}

// rescue is for a client that reported to have the right endpoints and then does not go on. It may have lost its last stream
// between a cluster and the endpoints sent behind it: then the cluster warms, and will not ask for endpoints that it has asked
// for before. Meanwhile Envoy ACKs no clusters, or, while it starts, does not ask for listeners. It is sent all endpoints again,
// once a stream.
//
// But it may also have said long ago what this side, which is busy, has yet to read; and to send all to a whole mesh would keep it
// busy. So the silence is sounded first: an empty response for endpoints is answered behind all that the client said before,
// and only what it has not said by then it does not say. Half a Hold leaves it time before routes stop waiting.
func (e *emission) rescue() {
	c := &e.session.channels[resource.Endpoint]
	at := e.session.rescueAt()
	if at.IsZero() || at.After(e.now) || !e.may(c) {
		return
	}
	e.respond(c, sent{from: c.held.base, sounding: true}, Response{})
}

// sounded takes the answer to a sounding of the given number.
func (s *Session) sounded(number uint64) {
	clusters := s.channels[resource.Cluster].sent
	if len(clusters) > 0 && clusters[0].number < number || s.yetToStart() {
		s.distrust()
	}
}

func (s *Session) distrust() {
	s.trusted = false
	s.askAll(&s.channels[resource.Endpoint])
}

// rescueAt is when to sound a client's silence, the zero time if it is not silent, or will be heard of without that.
func (s *Session) rescueAt() time.Time {
	if !s.trusted {
		return time.Time{}
	}
	clusters, endpoints := s.channels[resource.Cluster].sent, s.channels[resource.Endpoint].sent
	switch {
	case len(endpoints) == maxOutstanding, slices.ContainsFunc(endpoints, func(r *sent) bool { return r.sounding }):
	case len(clusters) > 0:
		return clusters[0].at.Add(s.opt.Hold / 2)
	case s.yetToStart():
		return s.opened.Add(s.opt.Hold / 2)
	}
	return time.Time{}
}

// yetToStart tells that the client has asked for clusters and not for listeners.
func (s *Session) yetToStart() bool {
	return !s.opened.IsZero() && !s.channels[resource.Listener].started
}

// unanswered is until when to wait for the ACK of the matching responses, the zero time if there are none.
func (s *Session) unanswered(t resource.Type, match func(*sent) bool) time.Time {
	var until time.Time
	for _, r := range s.channels[t].sent {
		if match(r) {
			until = latest(until, r.at.Add(s.opt.Hold))
		}
	}
	return until
}

func all(*sent) bool { return true }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
