package fanout

import (
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// Record is the account of one generation: whom it touched, what was sent for it, how long it took.
type Record struct {
	Generation uint64
	Cause      string
	// Observed is when its oldest event reached this process, Published when it was offered to connections, Finished when
	// the last of them had acknowledged it or left.
	Observed, Published, Finished time.Time
	// Proxies is how many connections it touched.
	Proxies int
	// Of these, Refused sent a NACK before they accepted the rest, Left went away before they accepted it, and Waiting were
	// not waited for, because too many later generations were open too.
	Refused, Left, Waiting int
	// Bytes is the size of all responses that were sent for it.
	Bytes int64
}

// Elapsed is the time from the oldest event to the last ACK.
func (r Record) Elapsed() time.Duration { return r.Finished.Sub(r.Observed) }

const (
	// maxOpen is how many generations may wait for ACKs at a time; for the oldest of more it is given up, and counted.
	maxOpen = 128
	// maxFinished is how many records may wait for their reader.
	maxFinished = 256
)

type outcome uint8

const (
	acknowledged outcome = iota
	departed
)

// record is an open Record, guarded by the ledger's lock but for what is known from the start and does not change.
type record struct {
	Record
	touched bool // Proxies is known
	told    int  // of settled, to Options.Progress
	through bool // it was told that these are nearly all
	closed  bool
	settled int
}

// The progress of a generation is told in so many steps, until nearly all have it: all but one in so many, as those that are left may be stuck.
const (
	progressSteps = 64
	stragglers    = 8
)

// ledger keeps the accounts of the generations that wait for ACKs.
type ledger struct {
	now      func() time.Time
	metrics  *observe.Metrics
	progress func(generation uint64, nearlyAll bool) // Options.Progress; may be nil
	finished chan Record

	mu   sync.Mutex
	live []*record // by age
}

func newLedger(o Options) *ledger {
	return &ledger{now: o.Now, metrics: o.Metrics, progress: o.Progress, finished: make(chan Record, maxFinished)}
}

func (l *ledger) open(g Generation) *record {
	now := l.now()
	r := &record{Record: Record{
		Generation: g.Number, Cause: g.Cause, Observed: g.Observed, Published: now,
	}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.live) >= maxOpen {
		l.metrics.Drops.WithLabelValues("open_push").Inc()
		l.close(l.live[0])
	}
	l.live = append(l.live, r)
	return r
}

// published says how many connections the generation touched; some may have settled by now.
func (l *ledger) published(r *record, touched int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Proxies = touched
	r.touched = true
	l.closeIfSettled(r)
}

func (l *ledger) sent(r *record, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Bytes += int64(bytes)
}

func (l *ledger) settle(settled []opening, as outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range settled {
		r := o.record
		r.settled++
		switch {
		case as == departed:
			r.Left++
		case o.nacked:
			r.Refused++
		}
		l.closeIfSettled(r)
	}
}

func (l *ledger) closeIfSettled(r *record) {
	if !r.touched {
		return
	}
	l.tell(r)
	if !r.closed && r.settled == r.Proxies {
		l.close(r)
	}
}

// tell says how far the generation has come, if that is news.
func (l *ledger) tell(r *record) {
	nearlyAll := r.settled >= r.Proxies-r.Proxies/stragglers
	if l.progress == nil || r.through || !nearlyAll && r.settled < r.told+max(1, r.Proxies/progressSteps) {
		return
	}
	r.told, r.through = r.settled, nearlyAll
	l.progress(r.Generation, nearlyAll)
}

// close ends the account, settled or not, and delivers it unless nobody was touched.
func (l *ledger) close(r *record) {
	r.closed = true
	for i, o := range l.live {
		if o == r {
			l.live = append(l.live[:i], l.live[i+1:]...)
			break
		}
	}
	if r.Proxies == 0 {
		return
	}
	r.Finished = l.now()
	r.Waiting = r.Proxies - r.settled
	if r.Waiting+r.Refused == 0 && r.Left < r.Proxies {
		l.metrics.Push.EventToLastAck.Observe(r.Elapsed().Seconds())
	}
	l.deliver(r.Record)
}

func (l *ledger) deliver(r Record) {
	for {
		select {
		case l.finished <- r:
			return
		default:
		}
		select {
		case <-l.finished:
			l.metrics.Drops.WithLabelValues("push_record").Inc()
		default:
		}
	}
}
