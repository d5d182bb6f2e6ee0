package session

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// requestDelta takes a DeltaDiscoveryRequest. It may ACK or refuse a response and change the
// subscription at once (P13). A nonce that is not outstanding has no effect (P12).
func (s *Session) requestDelta(ts *typeState, req Request, now time.Time) {
	s.handleAnswer(
		ts,
		req,
		now,
	) // first: the client dropped what was offered and not subscribed to by now, see subscribe
	if !ts.started {
		ts.started = true
		if req.reports() {
			s.drainedAt = now.Add(s.opt.Drain) // a listener replaced on its last stream may not have drained yet
		}
		s.open(ts, req)
	} else {
		req = req.expanded()
		s.subscribe(ts, req.Subscribe, nil)
		s.unsubscribe(ts, req.Unsubscribe)
	}
	if req.subscribes() || len(req.Unsubscribe) > 0 {
		ts.sub.compact(s.opt.Differ, ts.typ, ts.set)
	}
}

// open takes a stream's first request of a type. Without names it is a wildcard, for types that
// have one (P1). What the client reports to hold from an earlier stream counts now and never again
// (P8).
func (s *Session) open(ts *typeState, req Request) {
	if ts.typ == resource.Name && req.subscribes() {
		s.takeNamesOneByOne(ts)
	}
	ts.responseDue = ts.typ.Wildcard() && !req.subscribes()
	if !s.openByIndex(ts, &req) {
		s.openByName(ts, req.expanded())
	}
	for name := range s.distrustedNames(ts.typ) {
		if ts.wants(name) {
			ts.held.set(name, holding{certainty: uncertain, alternative: anyVersion})
		}
	}
	switch ts.typ {
	case resource.VirtualHost:
		s.openVirtualHosts(ts)
	case resource.Filter:
		s.doubtsListeners = true
	case resource.Endpoint:
		s.trustsEndpoints = req.reports()
		if s.isReconnect && s.openedAt.IsZero() {
			s.resendEndpoints() // a cluster warms, and waits for endpoints that the client reports
		}
		s.answerWarming(ts)
	default:
	}
}

// openByName takes a first request name by name.
func (s *Session) openByName(ts *typeState, req Request) {
	ts.sub.all = ts.responseDue
	if ts.typ == resource.Route && s.vhds && hasWholeTables(req.InitialVersions) {
		s.serveWholeTables()
	}
	s.subscribe(ts, req.Subscribe, req.InitialVersions)
	s.unsubscribe(ts, req.Unsubscribe)
	for name, v := range req.InitialVersions {
		ts.report(name, v)
	}
}

// report records what the client reports under a name.
func (ts *typeState) report(name, version string) {
	if !ts.wants(name) && ts.typ != resource.VirtualHost {
		return
	}
	h := reported(version)
	if ts.typ == resource.Endpoint {
		h = ts.session.leds.resume(name, h)
	}
	ts.held.set(name, h)
}

// reported returns what a client holds that reports the version. One of another control plane says
// only that there is something.
func reported(version string) holding {
	if v, ok := resource.ParseVersion(version); ok {
		return holding{version: v}
	}
	return holding{certainty: uncertain, alternative: anyVersion}
}

// subscribe adds names. Each gets an answer, whatever the client holds (P3). The exceptions are
// names that the client reports to hold, and those offered to it with their cluster a moment ago.
func (s *Session) subscribe(ts *typeState, names []string, reported map[string]string) {
	for _, name := range names {
		if name == wildcard {
			s.subscribeAll(ts)
			continue
		}
		was := ts.sub.has(name)
		ts.sub.add(name)
		if ts.typ == resource.Route && !was {
			s.tableSubscribed(name)
		}
		if _, ok := reported[name]; ok {
			continue
		}
		if r := ts.offered(name); r != nil && !was {
			ts.holds(r)
			continue
		}
		ts.oweAnswer(name, was)
	}
}

// holds records that the client has exactly this resource.
func (ts *typeState) holds(r *resource.Resource) {
	if ts.held.base.Get(r.Name()) == r {
		ts.held.reset(r.Name())
		return
	}
	ts.held.set(r.Name(), holding{version: ts.session.own.Version(r), resource: r})
}

// subscribeAll turns the wildcard on (P2). Everything is sent that the client does not hold by
// name. If it had the wildcard before, everything is sent again, because it may have dropped
// resources in between.
func (s *Session) subscribeAll(ts *typeState) {
	if !ts.typ.Wildcard() {
		return
	}
	ts.responseDue = true
	if ts.sub.all {
		ts.held.base = resource.Empty()
		for name, h := range ts.held.exceptions {
			if h.certainty == known {
				h.certainty = uncertain
				ts.held.exceptions[name] = h
			}
		}
		return
	}
	ts.sub.each(func(name string) {
		if _, ok := ts.held.exceptions[name]; ok {
			return
		}
		if r := ts.held.base.Get(name); r != nil {
			ts.held.set(name, holding{version: ts.session.own.Version(r), resource: r})
		}
	})
	ts.held.base = resource.Empty()
	ts.sub.all = true
}

// unsubscribe removes names. If the wildcard still covers a name, the client is sent what there is
// (P4). A name that it never subscribed to needs nothing (P5).
func (s *Session) unsubscribe(ts *typeState, names []string) {
	for _, name := range names {
		if name == wildcard {
			s.unsubscribeAll(ts)
			continue
		}
		was := ts.sub.remove(name)
		if ts.typ == resource.Endpoint && ts.offered(name) == nil {
			s.leds.drop(name)
		}
		if ts.typ == resource.Route && was {
			s.tableUnsubscribed(name)
		}
		switch {
		case !ts.sub.all:
			ts.held.reset(name)
		case was || ts.set.Get(name) != nil:
			ts.oweAnswer(name, true)
		}
	}
}

func (s *Session) unsubscribeAll(ts *typeState) {
	ts.sub.all, ts.responseDue = false, false
	for _, name := range ts.held.exceptionNames() {
		if !ts.wants(name) {
			ts.held.reset(name)
		}
	}
}

// oweAnswer records that the client waits for an answer under the name. held is set if it was
// subscribed to before, so that what the client has is known.
func (ts *typeState) oweAnswer(name string, held bool) {
	h, exception := ts.held.exceptions[name]
	if h.certainty == retrying {
		return // the answer comes with its group
	}
	if held && !exception {
		if r := ts.held.base.Get(name); r != nil {
			h = holding{version: ts.session.own.Version(r), resource: r}
		}
	}
	h.certainty = answerDue
	ts.held.set(name, h)
	ts.session.wake(ts.typ) // which may not be the type of this event
}

// offered returns the resource last sent under a name that the client had not subscribed to, as
// long as the client has not ACKed that response.
//
// Envoy subscribes to a new cluster's endpoints while it reads the cluster. Then it reads the
// endpoints sent behind it, and ACKs those last. So a subscription that comes before the ACK found
// the offer, and needs no answer. One that comes with the ACK or after it does: Envoy drops
// endpoints that no cluster waits for yet.
func (ts *typeState) offered(name string) *resource.Resource {
	if r := ts.offeringResponse(name); r != nil {
		return find(r.upserts, name)
	}
	return nil
}

// offeringResponse returns the response of offered.
func (ts *typeState) offeringResponse(name string) *sentResponse {
	for _, r := range slices.Backward(ts.unanswered) {
		if find(r.offered, name) != nil && find(r.upserts, name) != nil {
			return r
		}
	}
	return nil
}

// warming is a set of clusters, or all clusters if it would be large. The zero value is empty.
type warming struct {
	all   bool
	names map[string]struct{}
}

const maxWarming = 1024

func (w *warming) add(name string) {
	if w.all {
		return
	}
	w.names = with(w.names, name)
	if len(w.names) > maxWarming {
		*w = warming{all: true}
	}
}

// settle removes clusters that are gone.
func (w *warming) settle(clusters *resource.Set) {
	for name := range w.names {
		if clusters.Get(name) == nil {
			w.names = without(w.names, name)
		}
	}
}

// oweEndpoints has the clusters' endpoints sent behind them, changed or not. A cluster that changes
// warms again and wants its endpoints again, without a request (P10). It returns endpoints that the
// client does not subscribe to yet. They are sent as well, which saves a round trip.
//
// Only a client that has opened the type on this stream is offered anything. Before that, an Envoy
// that refuses the clusters would subscribe to no endpoints, and it drops such a response without
// an answer.
func (s *Session) oweEndpoints(clusters []emitted) []*resource.Resource {
	ts := &s.types[resource.Endpoint]
	sotw := s.opt.Protocol == StateOfTheWorld
	if len(clusters) == 0 || !ts.started && s.warming.all {
		return nil
	}
	var offers []*resource.Resource
	for _, sent := range clusters {
		for _, cluster := range slices.Concat(sent[0], sent[1]) {
			name := cluster.Name()
			r := ts.set.Get(name)
			switch {
			case r == nil && ts.sub.has(name) && s.types[resource.Cluster].set.Get(name) == nil:
				ts.oweAnswer(name, true) // only a full list repeats a cluster that is about to be removed
			case r == nil: // no endpoints of its own: not an EDS cluster
			case !ts.started:
				s.warming.add(name)
			case ts.sub.has(name):
				ts.oweAnswer(name, true)
				if sotw {
					s.warming.add(name) // P11
				}
			case !sotw && !ts.refuses(r):
				offers = append(offers, r)
			}
		}
	}
	slices.SortFunc(offers, byName)
	return offers
}

// answerWarming answers the client's request for endpoints with those of clusters that were sent
// before it.
func (s *Session) answerWarming(ts *typeState) {
	if s.warming.all {
		ts.sub.each(func(name string) { ts.oweAnswer(name, true) })
	}
	for name := range s.warming.names {
		if ts.sub.has(name) {
			ts.oweAnswer(name, true)
		}
	}
	s.warming = warming{}
}
