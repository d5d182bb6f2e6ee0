package serve

import (
	"sync"
	"time"
)

// watch finds sends that take too long, at the cost of one timer for all streams: one that is stuck for stallAfter gives its
// turn of the throttle back, one that is stuck for the limit loses its stream. It looks at them at intervals, so that may be
// half as late again.
type watch struct {
	limit    time.Duration
	interval time.Duration
	now      func() time.Time

	mu          sync.Mutex
	first, last *stream // in a send, oldest first
	timer       *time.Timer
	armed       bool
}

// sending is a stream's part in the watch, guarded by watch.mu.
type sending struct {
	before, after *stream
	since         time.Time
	stalled       bool
}

// stallAfter is how long a send may hold a turn of the throttle. A client that does not read is then on its own.
const stallAfter = 100 * time.Millisecond

func newWatch(limit time.Duration, now func() time.Time) *watch {
	return &watch{limit: limit, interval: min(stallAfter, limit) / 2, now: now}
}

// begin says that a stream is in a send from now on.
func (w *watch) begin(st *stream, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st.sending = sending{before: w.last, since: now}
	if w.last == nil {
		w.first = st
	} else {
		w.last.sending.after = st
	}
	w.last = st
	if !w.armed {
		w.arm()
	}
}

// end says that it is not in a send any more.
func (w *watch) end(st *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := st.sending
	st.sending = sending{}
	if s.before == nil {
		w.first = s.after
	} else {
		s.before.sending.after = s.after
	}
	if s.after == nil {
		w.last = s.before
	} else {
		s.after.sending.before = s.before
	}
}

// arm sets the timer. The caller holds mu.
func (w *watch) arm() {
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(w.interval, w.look)
		return
	}
	w.timer.Reset(w.interval)
}

// look looks at all sends, and again later while there are some.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	now := w.now()
	for st := w.first; st != nil; st = st.sending.after {
		age := now.Sub(st.sending.since)
		if age >= w.limit {
			st.kill(errWriteTimeout)
		}
		if age >= stallAfter && !st.sending.stalled {
			st.sending.stalled = true
			st.conn.Yield()
		}
	}
	if w.first != nil {
		w.arm()
	}
}
