package serve

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// Two goroutines drive a session: the stream's own for requests, and one of the Hub's for pushes
// and ticks. Whoever holds stream.driving drives, sends included, so that responses leave in order.
// A push does not wait for driving, because the other may be stuck in a send. It sets
// stream.pushMissed, and whoever drives does the rest, or has the Hub push again when it stops
// (stopDriving). A request does wait for a push that is stuck, and
// with it, by HTTP/2's flow control, the client.

// request takes a request, and a push that found the session busy.
func (st *stream) request(r *request) error {
	st.driving.Lock()
	defer st.stopDriving()
	asks := r.asks()
	if asks {
		if err := st.acquireSlot(st.grpc.Context()); err != nil {
			return err
		}
		st.isFirstOfType = st.asked.add(requestType(r))
		defer func() { st.isFirstOfType = false }()
	}
	defer st.releaseSlot()
	if r.Nonce != "" {
		st.server.gate.Answered(&st.inFlight)
	}
	now := st.server.options.Now()
	expired := st.session.ExpiredNonces()
	st.beginStep()
	responses := st.session.Request(r.Request, now)
	st.endStep()
	r.release()
	if more := st.session.ExpiredNonces() - expired; more > 0 {
		st.server.instruments.xds.ExpiredNonces.Add(float64(more))
		r.isStale = true
	}
	if err := st.conclude(responses, now, r.Nack != nil); err != nil {
		return err
	}
	if asks {
		if err := st.chargeNames(); err != nil {
			return err
		}
	}
	if st.pushMissed.Load() {
		return st.catchUp() // a client that never stops asking gets its pushes between its requests
	}
	return nil
}

func (st *stream) beginStep() {
	st.mu.Lock()
	st.inStep = true
}

func (st *stream) endStep() {
	st.inStep = false
	st.mu.Unlock()
}

func (st *stream) beginSend(now time.Time) {
	st.server.sendWatch.begin(st, now)
	st.inSend = true
}

func (st *stream) endSend() {
	st.inSend = false
	st.server.sendWatch.end(st)
}

// stopDriving releases driving, and what a panic has left held, so that it ends this stream alone.
// A push that found the session busy is made again: nobody else looks at it.
func (st *stream) stopDriving() {
	if st.inStep {
		st.endStep()
	}
	if st.inSend {
		st.endSend()
	}
	st.driving.Unlock()
	if st.pushMissed.Load() {
		st.conn.Poke()
	}
}

// push is called by the Hub when the session may be behind, or its tick has fired.
func (st *stream) push() {
	if !st.driving.TryLock() {
		st.pushMissed.Store(true)
		if !st.driving.TryLock() {
			return
		}
	}
	defer st.stopDriving()
	defer func() {
		if bug := recover(); bug != nil {
			st.bug(bug)
			st.cancel(errBug)
		}
	}()
	if st.hasEnded {
		return
	}
	if err := st.catchUp(); err != nil {
		st.cancel(err) // ends the stream's own goroutine, which logs it
	}
}

// catchUp brings the session to the newest state and the present time. The caller holds driving.
func (st *stream) catchUp() error {
	st.pushMissed.Store(false)
	if p, ok := st.conn.Take(); ok {
		began := st.server.options.Now()
		metrics := &st.server.instruments.push
		metrics.Queue.Observe(began.Sub(p.Offered).Seconds())
		err := st.update(p, began)
		metrics.Convergence.Observe(st.server.options.Now().Sub(p.Offered).Seconds())
		if err != nil {
			return err
		}
	}
	if st.ticked.Swap(false) {
		st.tickAt = time.Time{}
		now := st.server.options.Now()
		st.beginStep()
		responses := st.session.Tick(now)
		st.endStep()
		if err := st.conclude(responses, now, false); err != nil {
			return err
		}
	}
	return st.seal()
}

// update brings the session to a state. The caller holds driving.
func (st *stream) update(p fanout.Push, now time.Time) error {
	st.beginStep()
	responses := st.session.Update(p.State, p.Overlay, now)
	st.endStep()
	return st.conclude(responses, now, false)
}

// conclude ends each step of the session: it records what is acknowledged, sets the timer, and
// sends the responses.
func (st *stream) conclude(responses []session.Response, began time.Time, refused bool) error {
	st.conn.Acknowledged(st.session.AckedGeneration())
	if refused {
		st.conn.Refused(st.session.State().Generation())
	}
	st.setTick(began)
	for i := range responses {
		if err := st.send(&responses[i], began); err != nil {
			return err
		}
	}
	st.server.scratch.Return(responses)
	if st.sealed && st.session.EndpointsAnswered() {
		st.sealPending.Store(false)
	}
	return nil
}

// setTick has the Hub call push when the session wants a tick, or soon if that time is past.
func (st *stream) setTick(now time.Time) {
	at, ok := st.session.NextTick()
	switch {
	case !ok && st.tickAt.IsZero(), ok && at.Equal(st.tickAt):
	case !ok:
		st.tick.Stop()
	case st.tick == nil:
		st.tick = time.AfterFunc(at.Sub(now), func() {
			st.ticked.Store(true)
			st.conn.Poke()
		})
	default:
		st.tick.Reset(at.Sub(now))
	}
	st.tickAt = at
}

func (st *stream) send(r *session.Response, began time.Time) error {
	in := st.server.instruments
	before := st.server.options.Now()
	st.beginSend(before)
	err := st.awaitRoom()
	size := 0
	if err == nil {
		st.out.prepare(len(r.Upserts))
		own := st.session.Overlay()
		st.out.Encode(st.protocol, r, &own)
		size = st.out.Size
		if st.isFirstOfType {
			st.server.gate.Sent(&st.inFlight, size)
		}
		err = st.grpc.SendMsg(&st.out)
		st.out.Release()
	}
	st.endSend()
	if err != nil {
		in.sendFailed(r)
		return err
	}
	after := st.server.options.Now()
	in.xds.SendTime.Observe(after.Sub(before).Seconds())
	in.sent(r, size, after.Sub(began))
	st.logSent(r, size)
	st.conn.Sent(r.Generation, size)
	return nil
}

// awaitRoom waits until the client has taken what was sent to it before. Meanwhile it gives its
// slots to others.
func (st *stream) awaitRoom() error {
	if !st.out.queue.IsFull() {
		return nil
	}
	st.conn.Yield()
	st.releaseSlot()
	if st.isFirstOfType { // else this may be a push, and the gate is not its to leave
		st.leaveGate()
	}
	if err := st.out.queue.Wait(st.grpc.Context()); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// logSent logs what a proxy was sent.
func (st *stream) logSent(r *session.Response, size int) {
	if !st.server.options.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	names := make([]string, 0, len(r.Upserts))
	for _, u := range r.Upserts {
		names = append(names, u.Name())
	}
	st.log().Debug("response sent", "type", shortName(responseType(r)),
		"resources", names, "removed", r.Removed, "bytes", size)
}

// bug logs and counts a panic, which ends one stream.
func (st *stream) bug(panicked any) {
	st.server.instruments.xds.InternalErrors.Inc()
	st.log().Error("stream ended by a bug", "panic", panicked, "stack", string(debug.Stack()))
}
