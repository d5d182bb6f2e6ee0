package fanout

import (
	"sync"
	"time"
)

// pool runs the pushes of all connections, so that a stream needs no goroutine of its own for them, and a push to a thousand
// of them wakes a few. A connection stands in the queue at most once, so the queue is bounded by the number of
// connections; it is first come, first served. At most limit pushes are under way at a time: who is stuck in one gives its
// turn back (Conn.Yield). While there is nothing to push there is no goroutine.
type pool struct {
	limit int
	now   func() time.Time

	mu          sync.Mutex
	first, last *Conn         // the queue, linked by task.next
	turns       int           // that are taken
	quiet       chan struct{} // closed when none is taken; nil while nobody waits for that
	pushes      int           // that have ended since then
	busy        time.Time     // when they were many
}

// many are so many pushes, one after the other, that they take a millisecond of CPU and more.
const many = 64

// task is a connection's part in the pool. All but push, which is set before anything else, is guarded by pool.mu.
type task struct {
	push    func()
	next    *Conn
	queued  bool
	running bool // push is under way
	again   bool // to be queued again when push has returned
	turn    bool // push holds a turn
}

// add puts a connection into the queue, unless it is there.
func (p *pool) add(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch t := &c.task; {
	case t.push == nil || t.queued:
	case t.running:
		t.again = true
	default:
		p.enqueue(c)
		p.hire()
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

// hire starts a worker, if there is something to do and a turn to be had. The caller holds mu.
func (p *pool) hire() {
	if p.first != nil && p.turns < p.limit {
		p.turns++
		go p.work()
	}
}

// work pushes until nothing is left to push, or until its turn was given back while it was stuck.
func (p *pool) work() {
	for c := p.next(); c != nil; c = p.next() {
		c.task.push()
		if !p.pushed(c) {
			return
		}
	}
}

// next takes the first connection out of the queue; nil, and the turn with it, if there is none.
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
	t.queued, t.running, t.turn = false, true, true
	return c
}

// pushed notes the end of a push, and tells whether it still had its turn.
func (p *pool) pushed(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &c.task
	kept := t.turn
	t.running, t.turn = false, false
	if p.pushes++; p.pushes%many == 0 {
		p.busy = p.now()
	}
	if t.again {
		t.again = false
		p.enqueue(c)
		p.hire()
	}
	return kept
}

// yield gives the turn of a push back that is under way.
func (p *pool) yield(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.task.turn {
		c.task.turn = false
		p.release()
		p.hire()
	}
}

// release gives a turn back. The caller holds mu.
func (p *pool) release() {
	if p.turns--; p.turns > 0 {
		return
	}
	p.pushes = 0
	if p.quiet != nil {
		close(p.quiet)
		p.quiet = nil
	}
}

// busySince tells whether many pushes followed each other since a time.
func (p *pool) busySince(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy.After(t)
}

// calm returns what is closed when no push is under way; nil if none is.
func (p *pool) calm() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turns == 0 {
		return nil
	}
	if p.quiet == nil {
		p.quiet = make(chan struct{})
	}
	return p.quiet
}
