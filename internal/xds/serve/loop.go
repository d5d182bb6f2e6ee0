package serve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// requestBurst is how many requests go before a push that waits. Requests go first, because ACKs let the session go on
// and new subscriptions make a push more useful; the bound keeps a chatty client from never getting its push.
const requestBurst = 8

// loop runs until the stream ends: nil if the client ended it.
func (st *stream) loop(ctx context.Context) error {
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	var turn chan<- struct{} // set while a push waits for its turn
	for {
		if done, err := st.readyRequests(); done || err != nil {
			return err
		}
		st.setTick(tick)
		var err error
		select {
		case r, ok := <-st.requests:
			if !ok {
				return st.readError()
			}
			err = st.request(r)
		case <-st.conn.Wake():
			turn = st.conn.Turn()
		case turn <- struct{}{}:
			turn = nil
			st.turn.held.Store(true)
			err = st.push()
			st.turn.release()
		case <-tick.C:
			err = st.step(nil, func(now time.Time) []session.Response { return st.session.Tick(now) })
		case <-st.server.draining:
			return errDraining
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readyRequests handles requests that are there already; done when there will be none any more.
func (st *stream) readyRequests() (done bool, err error) {
	for range requestBurst {
		select {
		case r, ok := <-st.requests:
			if !ok {
				return true, st.readError()
			}
			if err := st.request(r); err != nil {
				return false, err
			}
		default:
			return false, nil
		}
	}
	return false, nil
}

// setTick makes the timer fire when the session wants it; at once if that is past.
func (st *stream) setTick(t *time.Timer) {
	if at, ok := st.session.NextTick(); ok {
		t.Reset(at.Sub(st.server.options.Now()))
		return
	}
	t.Stop()
}

// request gives a request to the session.
func (st *stream) request(r *request) error {
	if r.Nack != nil {
		st.nacked = true
		t := requestType(r)
		st.server.instruments.refused(t, st.node, r.Nack)
		st.log.Warn("proxy refused its configuration", "type", shortName(t), "error", r.Nack.Message)
	}
	return st.step(r.Nack, func(now time.Time) []session.Response {
		expired := st.session.ExpiredNonces()
		responses := st.session.Request(r.Request, now)
		st.server.instruments.xds.ExpiredNonces.Add(float64(st.session.ExpiredNonces() - expired))
		return responses
	})
}

// push brings the session to the newest state, if there is one that it does not have.
func (st *stream) push() error {
	p, ok := st.conn.Take()
	if !ok {
		return nil
	}
	metrics := &st.server.instruments.push
	metrics.Queue.Observe(st.server.options.Now().Sub(p.Offered).Seconds())
	err := st.bring(p)
	metrics.Convergence.Observe(st.server.options.Now().Sub(p.Offered).Seconds())
	return err
}

func (st *stream) bring(p fanout.Push) error {
	return st.step(nil, func(now time.Time) []session.Response {
		st.own = p.Own
		return st.session.Update(p.State, p.Own, now)
	})
}

// step lets the session make one step, keeps the account of pushes, and sends what the session wants sent.
func (st *stream) step(nack *session.Nack, f func(now time.Time) []session.Response) error {
	began := st.server.options.Now()
	responses := st.ask(func() []session.Response { return f(began) })
	st.conn.Acknowledged(st.session.AckedGeneration())
	if nack != nil {
		st.conn.Refused(st.session.State().Generation)
	}
	for _, r := range responses {
		if err := st.send(r, began); err != nil {
			return err
		}
	}
	return nil
}

// ask changes the session under the lock that Clients reads it with.
func (st *stream) ask(f func() []session.Response) []session.Response {
	st.mu.Lock()
	defer st.mu.Unlock()
	return f()
}

func (st *stream) send(r session.Response, began time.Time) error {
	in := st.server.instruments
	frame := fanout.Encode(st.protocol, r, st.own)
	before := st.server.options.Now()
	st.timeout.Reset(st.server.limits.Write)
	st.stall.Reset(stallAfter)
	err := st.grpc.SendMsg(frame)
	st.stall.Stop()
	st.timeout.Stop()
	if err != nil {
		in.sendFailed(r)
		return err
	}
	after := st.server.options.Now()
	in.xds.SendTime.Observe(after.Sub(before).Seconds())
	in.sent(r, frame.Size, after.Sub(began))
	st.logSent(r, frame.Size)
	st.conn.Sent(r.Generation, frame.Size)
	return nil
}

// logSent is for whoever wants to know what a proxy was sent, and why it was anything at all.
func (st *stream) logSent(r session.Response, size int) {
	if !st.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	names := make([]string, 0, len(r.Upserts))
	for _, u := range r.Upserts {
		names = append(names, u.Name())
	}
	st.log.Debug("response sent", "type", shortName(responseType(r)), "resources", names, "removed", r.Removed, "bytes", size)
}

// turn is the stream's turn of the throttle, which its stall timer may give back while the loop is in a send.
type turn struct {
	conn *fanout.Conn
	held atomic.Bool
}

func (t *turn) release() {
	if t.held.CompareAndSwap(true, false) {
		t.conn.Done()
	}
}
