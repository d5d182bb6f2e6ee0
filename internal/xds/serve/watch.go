package serve

import (
	"sync"
	"time"
)

// sendWatch finds sends that take too long, with one timer for all streams. A stream that is stuck
// for stallAfter gives its slot of the push throttle back. One that is stuck for the limit is
// ended. It looks at intervals, so either may be half as late again.
type sendWatch struct {
	limit    time.Duration
	interval time.Duration
	now      func() time.Time

	mu          sync.Mutex
	first, last *stream // in a send, oldest first
	timer       *time.Timer
	armed       bool
}

// sending is a stream's part in sendWatch, guarded by sendWatch.mu.
type sending struct {
	before, after *stream
	since         time.Time
	stalled       bool
}

// stallAfter is how long a send may hold a slot of the push throttle.
const stallAfter = 100 * time.Millisecond

func newWatch(limit time.Duration, now func() time.Time) *sendWatch {
	return &sendWatch{limit: limit, interval: min(stallAfter, limit) / 2, now: now}
}

// begin records that a stream is in a send from now on.
func (w *sendWatch) begin(st *stream, now time.Time) {
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

// end records that the send is over.
func (w *sendWatch) end(st *stream) {
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
func (w *sendWatch) arm() {
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(w.interval, w.look)
		return
	}
	w.timer.Reset(w.interval)
}

// look checks all sends, and again later while there are some.
func (w *sendWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	now := w.now()
	for st := w.first; st != nil; st = st.sending.after {
		age := now.Sub(st.sending.since)
		if age >= w.limit {
			st.cancel(errWriteTimeout)
		}
		if age >= stallAfter && !st.sending.stalled {
			st.sending.stalled = true
			st.on(sendStalls)
		}
	}
	if w.first != nil {
		w.arm()
	}
}
