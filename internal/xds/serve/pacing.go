package serve

import (
	"context"
	"runtime"
	"time"
)

// This file has what keeps clients that ask for much from delaying the pushes to others: turns, and a rate for each client.

// turns are how many may do something at a time. First come, first served: a channel's senders wait in the order in which they came.
type turns chan struct{}

// newTurns are those of requests that ask for something: as many are answered at a time as there are CPUs. Acknowledgements and pushes
// need none, so however many clients connect at once, or ask without end, a push competes with this many of them alone. Who waits for a
// client in a send gives its turn back before. Those who wait are goroutines of streams, so as many as there are streams at most.
func newTurns() turns { return make(turns, runtime.GOMAXPROCS(0)) }

// take waits for a turn; with the end of ctx it returns its error.
func (t turns) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turns) give() { <-t }

// takeTurn waits for a turn, unless the stream has one; with the end of ctx it returns its error. The caller holds driving, or has not
// begun.
func (st *stream) takeTurn(ctx context.Context) error {
	if st.turn {
		return nil
	}
	err := st.server.turns.take(ctx)
	st.turn = err == nil
	return err
}

func (st *stream) giveTurn() {
	if st.turn {
		st.turn = false
		st.server.turns.give()
	}
}

// How many requests a client may make that are no answers: so many at once, and so many a second in the long run. An Envoy makes one
// for each type and each change of what it wants, and on demand one for each host that it calls for the first time.
const (
	requestBurst = 1000
	requestRate  = 200
)

const (
	requestEvery = time.Second / requestRate
	burstLasts   = requestBurst * requestEvery
)

// allowance is what a client has used of these: the time from when on all would be there again, a burst later. The zero value is that of a
// client that has asked nothing.
type allowance time.Duration

// take counts a request and tells how long the next one has to wait. now is a time since any that is fixed.
func (a *allowance) take(now time.Duration) time.Duration {
	*a = max(*a, allowance(now)) + allowance(requestEvery)
	return max(0, time.Duration(*a)-now-burstLasts)
}

// asks tells whether a request wants something, rather than answering a response.
func (r *request) asks() bool { return r.Nonce == "" || len(r.Subscribe) > 0 || r.Lists != nil }

// hold lets the next request wait, if the client asks for too much. Meanwhile it is not read, so that HTTP/2's flow control
// holds the client; it has its pushes, and its answers to them wait with the rest.
func (st *stream) hold(ctx context.Context) {
	wait := st.used.take(st.server.options.Now().Sub(st.since))
	if wait == 0 {
		return
	}
	if !st.held {
		st.held = true
		st.log().Warn("proxy asks for more than it may: its requests wait", "per_second", requestRate, "at_once", requestBurst)
	}
	st.server.instruments.xds.Held.Inc()
	pause(ctx, wait)
}
