package fanout

import (
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// pool runs the pushes of all connections. So a stream needs no goroutine of its own for them, and
// a push to a thousand streams wakes a few goroutines. At most limit pushes run at a time, first
// come, first served. A push that is stuck gives its slot back (Conn.Yield). A connection is in the
// queue at most once, so the queue is bounded by the number of connections. While there is nothing
// to push there is no goroutine.
type pool struct {
	limit   int
	now     func() time.Time
	metrics observe.Push

	mu          sync.Mutex
	first, last *Conn         // the queue, linked by task.next
	slots       int           // in use
	calmed      chan struct{} // closed when no slot is in use; nil while nobody waits
	pushes      int           // with something to do that have ended since no slot was in use
	busyAt      time.Time     // when pushes last was a multiple of manyPushes
	countedAt   time.Time     // up to when the use of slots is counted
}

func newPool(o Options) *pool {
	p := &pool{limit: throttle(o.Throttle), now: o.Now, metrics: o.Metrics.Push}
	p.metrics.Slots.Set(float64(p.limit))
	return p
}

// count counts how long the slots were in use, before their number changes and after many pushes.
// The caller holds mu.
func (p *pool) count() {
	now := p.now()
	if p.slots > 0 {
		p.metrics.BusySeconds.Add(max(0, now.Sub(p.countedAt).Seconds()) * float64(p.slots))
	}
	p.countedAt = now
}

// manyPushes is how many pushes in succession keep newcomers back: so many take a millisecond of
// CPU or more.
const manyPushes = 64

// task is a connection's part in the pool. pool.mu guards all of it but push, which is set before
// anything else.
type task struct {
	push      func() (useful bool)
	next      *Conn
	queued    bool
	running   bool // push is under way
	pushAgain bool // queue it again when push has returned
	hasSlot   bool // push holds a slot
}

// add puts a connection into the queue, unless it is there.
func (p *pool) add(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch t := &c.task; {
	case t.push == nil || t.queued:
	case t.running:
		t.pushAgain = true
	default:
		p.enqueue(c)
		p.startWorker()
	}
}

// enqueue appends a connection to the queue. The caller holds mu.
func (p *pool) enqueue(c *Conn) {
	c.task.queued = true
	if p.last == nil {
		p.first = c
	} else {
		p.last.task.next = c
	}
	p.last = c
}

// startWorker starts a worker, if there is something to push and a free slot. The caller holds mu.
func (p *pool) startWorker() {
	if p.first != nil && p.slots < p.limit {
		p.count()
		p.slots++
		p.metrics.Busy.Set(float64(p.slots))
		go p.work()
	}
}

// work pushes until nothing is left to push, or until its slot was given back while it was stuck.
func (p *pool) work() {
	for c := p.next(); c != nil; c = p.next() {
		useful := c.task.push()
		if !useful {
			p.metrics.Empty.Inc()
		}
		if !p.finish(c, useful) {
			return
		}
	}
}

// next takes the first connection out of the queue. If there is none it gives the slot back and
// returns nil.
func (p *pool) next() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.first
	if c == nil {
		p.release()
		return nil
	}
	t := &c.task
	if p.first = t.next; p.first == nil {
		p.last = nil
	}
	t.next = nil
	t.queued, t.running, t.hasSlot = false, true, true
	return c
}

// finish records the end of a push, and reports whether it still had its slot.
func (p *pool) finish(c *Conn, useful bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &c.task
	kept := t.hasSlot
	t.running, t.hasSlot = false, false
	if useful {
		p.countPush()
	}
	if t.pushAgain {
		t.pushAgain = false
		p.enqueue(c)
		p.startWorker()
	}
	return kept
}

// countPush counts a push that had something to do. The caller holds mu.
func (p *pool) countPush() {
	if p.pushes++; p.pushes%manyPushes == 0 {
		p.count()
		p.busyAt = p.countedAt
	}
}

// yield gives back the slot of a push that is under way.
func (p *pool) yield(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.task.hasSlot {
		c.task.hasSlot = false
		p.release()
		p.startWorker()
	}
}

// release gives a slot back. The caller holds mu.
func (p *pool) release() {
	p.count()
	p.slots--
	p.metrics.Busy.Set(float64(p.slots))
	if p.slots > 0 {
		return
	}
	p.pushes = 0
	if p.calmed != nil {
		close(p.calmed)
		p.calmed = nil
	}
}

// busySince reports whether many pushes followed each other since t.
func (p *pool) busySince(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busyAt.After(t)
}

// calm returns a channel that is closed when no push is under way, or nil if none is.
func (p *pool) calm() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots == 0 {
		return nil
	}
	if p.calmed == nil {
		p.calmed = make(chan struct{})
	}
	return p.calmed
}
