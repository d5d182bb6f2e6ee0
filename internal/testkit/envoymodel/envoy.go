package envoymodel

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
)

// Options say what Envoy this is, and decide what no client can predict. A nil function decides in
// the most usual way.
type Options struct {
	Protocol Protocol
	// Drain is --drain-time-s, how long a replaced or removed listener goes on with its old
	// configuration.
	Drain time.Duration
	// Shuffle brings the recipients of a response in order. Envoy serves them in the order of a
	// hash, mostly of addresses, and stops at the first that refuses, so that a refused response
	// may have been taken in any part.
	Shuffle func(n int, swap func(i, j int))
	// Lag tells whether a change of a subscription waits for the next ACK of its kind, or for
	// Flush, instead of going at once. Envoy 1.40 has no such lag when it has started; a server
	// should not depend on that.
	Lag func() bool
	// SlowDNS makes look-ups last until Resolve; else they end at once, as for a name in
	// /etc/hosts.
	SlowDNS bool
}

// Envoy is one Envoy, from its start on.
type Envoy struct {
	opt       Options
	now       time.Time
	mux       mux
	clusters  clusterManager
	listeners listenerManager
	timers    []*timer
	out       []proto.Message
	refused   int
}

// New starts an Envoy, with no stream yet.
func New(o Options, now time.Time) *Envoy {
	e := &Envoy{opt: o, now: now}
	base := newSubscriptions()
	if o.Protocol == StateOfTheWorld {
		e.mux = &sotwMux{envoy: e, subscriptions: base}
	} else {
		e.mux = &deltaMux{envoy: e, subscriptions: base}
	}
	e.clusters = newClusterManager(e)
	e.listeners = newListenerManager(e)
	e.mux.watch(Clusters, "", &e.clusters)
	return e
}

// Connect opens a stream; the stream before it, if any, is gone. It returns what Envoy says first.
func (e *Envoy) Connect() []proto.Message {
	e.mux.open()
	return e.said()
}

// Receive reads one response and returns what Envoy says to it.
func (e *Envoy) Receive(response proto.Message) []proto.Message {
	e.mux.receive(response)
	return e.said()
}

// Resolve ends the DNS look-ups of all clusters that do any, see Options.SlowDNS.
func (e *Envoy) Resolve() []proto.Message {
	e.clusters.resolve()
	return e.said()
}

// Flush says what Options.Lag held back, and what Envoy says when its threads have done their part.
func (e *Envoy) Flush() []proto.Message {
	e.listeners.flushFilters()
	e.mux.flush()
	return e.said()
}

// Advance lets time pass, and with it what times out.
func (e *Envoy) Advance(now time.Time) []proto.Message {
	for {
		var due *timer
		for _, t := range e.timers {
			if !t.at.After(now) && (due == nil || t.at.Before(due.at)) {
				due = t
			}
		}
		if due == nil {
			e.now = now
			return e.said()
		}
		e.stop(due)
		e.now = due.at
		due.fire()
	}
}

// NextTimer is when Advance would do something, false if never.
func (e *Envoy) NextTimer() (time.Time, bool) {
	if len(e.timers) == 0 {
		return time.Time{}, false
	}
	return slices.MinFunc(e.timers, func(a, b *timer) int { return a.at.Compare(b.at) }).at, true
}

func (e *Envoy) said() []proto.Message {
	out := e.out
	e.out = nil
	return out
}

// timer is something that happens later; nil is one that never does.
type timer struct {
	at   time.Time
	fire func()
}

func (e *Envoy) after(d time.Duration, fire func()) *timer {
	t := &timer{at: e.now.Add(d), fire: fire}
	e.timers = append(e.timers, t)
	return t
}

func (e *Envoy) stop(t *timer) {
	e.timers = slices.DeleteFunc(e.timers, func(x *timer) bool { return x == t })
}

// cancel stops a timer, if there is one, and returns that there is none any more.
func (e *Envoy) cancel(t *timer) *timer {
	if t != nil {
		e.stop(t)
	}
	return nil
}

// Summary is what /config_dump and /clusters show.
func (e *Envoy) Summary() Summary {
	s := Summary{
		Clusters: map[string]string{}, WarmingClusters: map[string]string{}, Listeners: map[string]string{},
		WarmingListeners: map[string]string{}, Routes: map[string]string{}, Hosts: map[string][]string{},
		Filters: map[string]string{},
	}
	e.clusters.summarize(&s)
	e.listeners.summarize(&s)
	return s
}
