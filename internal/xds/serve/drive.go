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

// Who drives makes the session's steps and sends what they give, so that responses leave in order.
// A push does not wait for another driver, which may be stuck in a send: what it came for is due
// from then on (driveState). A request does wait for a push that is stuck, and with it, by HTTP/2's
// flow control, the client.

// request takes a request, and does what is due.
func (st *stream) request(r *request) error {
	st.driver.await()
	defer st.stop()
	return st.answer(r)
}

// answer takes a request, and does what is due. The caller drives.
func (st *stream) answer(r *request) error {
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
	responses := st.step(func() []session.Response { return st.session.Request(r.Request, now) })
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
	if st.driver.now().due == 0 {
		return nil
	}
	_, err := st.catchUp() // a client that never stops asking gets its pushes between its requests
	return err
}

// step has the session make a step, which Clients does not read meanwhile. A panic leaves it
// readable.
func (st *stream) step(of func() []session.Response) []session.Response {
	st.mu.Lock()
	defer st.mu.Unlock()
	return of()
}

// stop ends the caller's turn to drive.
func (st *stream) stop() { st.on(driverStops) }

// on tells the driver what has happened, and the Hub what follows from it.
func (st *stream) on(e event) {
	switch st.driver.on(e) {
	case pokes:
		st.conn.Poke()
	case yields:
		st.conn.Yield()
	}
}

// push is called by the Hub when the session may be behind, or something is due. It reports whether
// it found something to do.
func (st *stream) push() (useful bool) {
	if st.driver.on(pushComes) != drives {
		return false
	}
	defer st.stop()
	defer func() {
		if bug := recover(); bug != nil {
			st.bug(bug)
			st.cancel(errBug)
		}
	}()
	useful, err := st.catchUp()
	if err != nil {
		st.cancel(err) // ends the stream's own goroutine, which logs it
	}
	return useful
}

// catchUp brings the session to the newest state and the present time. It reports whether there was
// a newer state, or something to send. The caller drives.
func (st *stream) catchUp() (useful bool, err error) {
	due := st.driver.take()
	p, isBehind := st.conn.Take()
	if isBehind {
		if err = st.take(p); err != nil {
			return true, err
		}
	}
	sent := 0
	if due&dueTick != 0 {
		if sent, err = st.ticked(); err != nil {
			return true, err
		}
	}
	if due&dueSeal != 0 {
		err = st.seal()
	}
	return isBehind || sent > 0 || due&dueSeal != 0, err
}

// take brings the session to the state of a push. The caller drives.
func (st *stream) take(p fanout.Push) error {
	began := st.server.options.Now()
	metrics := &st.server.instruments.push
	metrics.Queue.Observe(began.Sub(p.Offered).Seconds())
	err := st.update(p, began)
	metrics.Convergence.Observe(st.server.options.Now().Sub(p.Offered).Seconds())
	return err
}

// ticked makes the step that the session wanted at this time, and returns how much it sends. The
// caller drives.
func (st *stream) ticked() (sent int, err error) {
	st.tickAt = time.Time{}
	now := st.server.options.Now()
	responses := st.step(func() []session.Response { return st.session.Tick(now) })
	st.earliestTick = time.Time{}
	if len(responses) == 0 {
		st.earliestTick = now.Add(emptyTickPause)
	}
	return len(responses), st.conclude(responses, now, false)
}

// update brings the session to a state. The caller drives.
func (st *stream) update(p fanout.Push, now time.Time) error {
	responses := st.step(func() []session.Response { return st.session.Update(p.State, p.Overlay, now) })
	return st.conclude(responses, now, false)
}

// conclude ends each step of the session: it records what is acknowledged, sets the timer, and
// sends the responses.
func (st *stream) conclude(responses []session.Response, began time.Time, refused bool) error {
	st.conn.Answered(st.session.AnsweredGeneration())
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
		st.on(sealDone)
	}
	return nil
}

// emptyTickPause is how long after a tick that sent nothing the next one comes at the earliest. So
// a session that wants a tick at a time that is past, again and again, does not keep a CPU busy.
const emptyTickPause = 10 * time.Millisecond

// setTick has the Hub call push when the session wants a tick, or soon if that time is past.
func (st *stream) setTick(now time.Time) {
	at, ok := st.session.NextTick()
	if ok {
		at = st.notBefore(at)
	}
	switch {
	case !ok && st.tickAt.IsZero(), ok && at.Equal(st.tickAt):
	case !ok:
		st.tick.Stop()
	case st.tick == nil:
		st.tick = time.AfterFunc(at.Sub(now), func() { st.on(tickFires) })
	default:
		st.tick.Reset(at.Sub(now))
	}
	st.tickAt = at
}

// notBefore returns when a tick comes that the session wants at a time.
func (st *stream) notBefore(at time.Time) time.Time {
	if at.Before(st.earliestTick) {
		return st.earliestTick
	}
	return at
}

func (st *stream) send(r *session.Response, began time.Time) error {
	in := st.server.instruments
	before := st.server.options.Now()
	size, err := st.transmit(r, before)
	if err != nil {
		in.sendFailed(r)
		return err
	}
	after := st.server.options.Now()
	in.xds.SendTime.Observe(after.Sub(before).Seconds())
	in.sent(r, size, after.Sub(began))
	st.logSent(r, size)
	st.conn.Sent(r.Generation, fanout.Load{Bytes: size, Envoy: st.envoyTime(r)})
	return nil
}

// transmit encodes a response and hands it to grpc-go, which may take as long as the client does.
func (st *stream) transmit(r *session.Response, now time.Time) (size int, err error) {
	st.server.sendWatch.begin(st, now)
	defer st.server.sendWatch.end(st)
	if err := st.awaitRoom(); err != nil {
		return 0, err
	}
	st.out.prepare(len(r.Upserts))
	own := st.session.Overlay()
	st.out.Encode(st.protocol, r, &own)
	size = st.out.Size
	if st.isFirstOfType {
		st.server.gate.Sent(&st.inFlight, size)
	}
	err = st.grpc.SendMsg(&st.out)
	st.out.Release()
	return size, err
}

// awaitRoom waits until the client has taken what was sent to it before. Meanwhile it gives its
// slots to others.
func (st *stream) awaitRoom() error {
	if !st.out.queue.IsFull() {
		return nil
	}
	st.on(sendStalls)
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

// envoyTime estimates what a response takes of the client's main thread. One in state of the world
// says anew what has not changed, which costs next to nothing; it is not counted.
func (st *stream) envoyTime(r *session.Response) time.Duration {
	if r.Version != "" {
		return 0
	}
	return st.session.State().EnvoyTime(r.Type, r.Upserts, r.Removed, r.Shared)
}
