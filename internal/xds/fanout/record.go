package fanout

import (
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// Record describes one generation: whom it touched, what was sent for it, how long it took.
type Record struct {
	Generation uint64
	Cause      string
	// Observed is when its oldest event reached this process. Published is when it was offered to
	// connections. Answered is when the last of them had acknowledged all but what is held back on
	// purpose, such as removals, or had left. Finished is when it had the rest, too.
	Observed, Published, Answered, Finished time.Time
	// Half and Most are the same as Answered for half of the connections, and for 90 % of them;
	// zero if the record was given up before.
	Half, Most time.Time
	// Proxies is how many connections it touched.
	Proxies int
	// Of these, Refused sent a NACK before they accepted the rest. Left disconnected before they
	// accepted it. Waiting were given up, because too many later generations were open too.
	Refused, Left, Waiting int
	// Bytes is the size of all responses that were sent for it.
	Bytes int64
	// Envoy is what they took of the main thread of the client that had most to do, estimated.
	Envoy time.Duration
}

// Elapsed is the time from the oldest event to the last ACK. What is held back on purpose does not
// count.
func (r Record) Elapsed() time.Duration { return r.Answered.Sub(r.Observed) }

const (
	// maxOpen is how many generations may wait for ACKs at a time. Above it the oldest is given up,
	// and counted.
	maxOpen = 128
	// maxFinished is how many records may wait for their reader.
	maxFinished = 256
)

type outcome uint8

const (
	acknowledged outcome = iota
	left
)

// record is an open Record. The tracker's lock guards what changes.
type record struct {
	Record
	endpoints   bool // Generation.RemovesEndpoints
	isPublished bool // Proxies is known
	reported    int  // value of settled at the last call of Options.Progress
	nearlyDone  bool // Options.Progress was told that nearly all have settled
	closed      bool
	settled     int
}

// The progress of a generation is told in so many steps, until nearly all have it: all but one in
// so many, as those that are left may be stuck.
const (
	// Options.Progress is called in at most progressSteps steps for each generation, until all but
	// one in stragglers have it.
	progressSteps = 64
	stragglers    = 8
)

// tracker keeps the records of the generations that wait for ACKs.
type tracker struct {
	now      func() time.Time
	metrics  *observe.Metrics
	progress func(Progress) // Options.Progress; may be nil
	finished chan Record
	recorded func(Record) // Options.Recorded; may be nil

	mu          sync.Mutex
	openRecords []*record // by age
}

func newTracker(o Options) *tracker {
	return &tracker{
		now: o.Now, metrics: o.Metrics, progress: o.Progress, recorded: o.Recorded,
		finished: make(chan Record, maxFinished),
	}
}

func (t *tracker) open(g Generation) *record {
	now := t.now()
	r := &record{endpoints: g.RemovesEndpoints, Record: Record{
		Generation: g.Number, Cause: g.Cause, Observed: g.Observed, Published: now,
	}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.openRecords) >= maxOpen {
		t.metrics.Drops.WithLabelValues("open_push").Inc()
		t.close(t.openRecords[0])
	}
	t.openRecords = append(t.openRecords, r)
	return r
}

// published sets how many connections the generation touched. Some may have settled by now.
func (t *tracker) published(r *record, touched int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Proxies = touched
	r.isPublished = true
	t.closeIfSettled(r)
}

// sent counts a response; l.Envoy is that of all that the client was sent for the generation.
func (t *tracker) sent(r *record, l Load) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Bytes += int64(l.Bytes)
	r.Envoy = max(r.Envoy, l.Envoy)
}

func (t *tracker) settle(settled []openRecord, as outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, o := range settled {
		r := o.record
		r.settled++
		if at := o.answeredAt(now); at.After(r.Answered) {
			r.Answered = at
		}
		switch {
		case as == left:
			r.Left++
		case o.nacked:
			r.Refused++
		}
		t.closeIfSettled(r)
	}
}

func (t *tracker) closeIfSettled(r *record) {
	if !r.isPublished {
		return
	}
	r.noteShares()
	t.reportProgress(r)
	if !r.closed && r.settled == r.Proxies {
		t.close(r)
	}
}

// noteShares notes when half and most of the connections have settled.
func (r *record) noteShares() {
	if r.Half.IsZero() && 2*r.settled >= r.Proxies {
		r.Half = r.Answered
	}
	if r.Most.IsZero() && 10*r.settled >= 9*r.Proxies {
		r.Most = r.Answered
	}
}

// reportProgress calls Options.Progress, if the generation has come a step further.
func (t *tracker) reportProgress(r *record) {
	nearlyAll := r.settled >= r.Proxies-r.Proxies/stragglers
	if t.progress == nil || r.nearlyDone || !nearlyAll && r.settled < r.reported+max(1, r.Proxies/progressSteps) {
		return
	}
	r.reported, r.nearlyDone = r.settled, nearlyAll
	t.progress(Progress{Generation: r.Generation, NearlyAll: nearlyAll, Envoy: r.Envoy})
}

// close ends the record, settled or not, and delivers it unless it touched nobody.
func (t *tracker) close(r *record) {
	r.closed = true
	for i, o := range t.openRecords {
		if o == r {
			t.openRecords = append(t.openRecords[:i], t.openRecords[i+1:]...)
			break
		}
	}
	if r.Proxies == 0 {
		return
	}
	r.Finished = t.now()
	r.Waiting = r.Proxies - r.settled
	if r.Waiting > 0 {
		r.Answered = r.Finished
	}
	if r.Waiting+r.Refused == 0 && r.Left < r.Proxies {
		t.metrics.Push.EventToLastAck.Observe(r.Elapsed().Seconds())
		if r.endpoints {
			t.metrics.Push.EndpointRemoval.Observe(r.Elapsed().Seconds())
		}
	}
	t.deliver(r.Record)
}

func (t *tracker) deliver(r Record) {
	if t.recorded != nil {
		t.recorded(r)
	}
	for {
		select {
		case t.finished <- r:
			return
		default:
		}
		select {
		case <-t.finished:
			t.metrics.Drops.WithLabelValues("push_record").Inc()
		default:
		}
	}
}
