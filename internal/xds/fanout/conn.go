package fanout

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Push is what a connection should be brought to.
type Push struct {
	State   resource.State
	Overlay resource.Overlay
	// Offered is when the oldest generation in it was published.
	Offered time.Time
}

// Conn is one connection as the Hub sees it. It has at most one pending push: a newer state
// replaces one that is still waiting. So a slow connection costs the pipeline nothing, and gets the
// newest state when it is ready.
type Conn struct {
	hub  *Hub
	task task

	// Guarded by hub.mu.
	class ClassID
	index int
	gone  bool

	mu        sync.Mutex
	pending   resource.State // what Take returns; none if nothing is pending
	offered   time.Time      // Push.Offered
	own       resource.Overlay
	unsettled []openRecord
	first     uint64        // the generation of the state at registration
	acked     uint64        // the generation up to which it has acknowledged; the largest number when it has left
	settled   chan struct{} // closed when acked grows; nil while nobody waits
}

// openRecord is a generation that this connection has not acknowledged. Conn.unsettled is ordered
// by generation, and at most one longer than the tracker's list of open records.
type openRecord struct {
	record     *record
	generation uint64 // acknowledging a state of this generation settles it
	answered   int64  // when all but what is held back was acknowledged, in Unix ns; 0 if not yet
	envoy      uint32 // Load.Envoy of all that was sent, in microseconds
	nacked     bool
}

// answeredAt returns when all was acknowledged but what is held back, if the record settles now.
func (o openRecord) answeredAt(now time.Time) time.Time {
	if o.answered == 0 {
		return now
	}
	return time.Unix(0, o.answered)
}

// Start makes the Hub call push whenever a push may be pending, and after each Poke. A goroutine of
// the Hub calls it, one call at a time for each connection, and for all together as many as the
// throttle allows. push reports whether it found something to do. Start is called at most once.
func (c *Conn) Start(push func() (useful bool)) {
	p := c.hub.pool
	p.mu.Lock()
	c.task.push = push
	p.mu.Unlock()
	if c.Behind() {
		p.add(c)
	}
}

// Poke has push called soon.
func (c *Conn) Poke() { c.hub.pool.add(c) }

// Yield gives the slot of a stuck push to others. The push goes on, and is not called again
// meanwhile.
func (c *Conn) Yield() { c.hub.pool.yield(c) }

// Take returns the pending push, if there is one. The connection has none from then on.
func (c *Conn) Take() (Push, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending.IsNone() {
		return Push{}, false
	}
	p := Push{State: c.pending, Overlay: c.own, Offered: c.offered}
	c.pending = resource.State{}
	return p, true
}

// Behind reports whether a push is pending.
func (c *Conn) Behind() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.pending.IsNone()
}

// behindSince reports whether something that was published before a time is not answered.
func (c *Conn) behindSince(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unsettled) > 0 && c.unsettled[0].record.Published.Before(t)
}

// Class returns the connection's class.
func (c *Conn) Class() ClassID {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return c.class
}

// offer replaces the pending push. It returns 1 if the record did not know this connection yet, and
// 0 otherwise. The caller holds hub.mu.
func (c *Conn) offer(state resource.State, own *resource.Overlay, r *record) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own != nil {
		c.own = *own
	}
	touched := c.note(r, state.Generation())
	if c.pending.IsNone() {
		c.offered = r.Published
	} else if touched == 1 {
		c.hub.metrics.Push.Coalesced.Inc()
	}
	c.pending = state
	c.hub.pool.add(c)
	return touched
}

func (c *Conn) note(r *record, want uint64) int {
	if n := len(c.unsettled); n > 0 && c.unsettled[n-1].record == r {
		c.unsettled[n-1].generation, c.unsettled[n-1].answered = want, 0
		return 0
	}
	if len(c.unsettled) > maxOpen {
		// The tracker has given up these records by now. The first one stays, as it tells how long
		// the client has been behind.
		c.unsettled = slices.Delete(c.unsettled, 1, 2)
	}
	c.unsettled = append(c.unsettled, openRecord{record: r, generation: want})
	return 1
}

// Load is what a response costs.
type Load struct {
	Bytes int           // its size
	Envoy time.Duration // what it takes of the client's main thread, estimated
}

// maxLoad is the longest time that is counted of a response.
const maxLoad = time.Minute

// Sent counts a response that brings the client to the state of the given generation. A push that
// merged several generations counts for the newest. What a new client gets is no push, however
// large it is: it costs nobody's main thread but its own.
func (c *Conn) Sent(generation uint64, l Load) {
	c.mu.Lock()
	if c.acked < c.first {
		l.Envoy = 0
	}
	var r *record
	for i := range slices.Backward(c.unsettled) {
		if o := &c.unsettled[i]; o.generation <= generation {
			o.envoy += uint32(min(l.Envoy, maxLoad) / time.Microsecond) //nolint:gosec // it is bounded
			r, l.Envoy = o.record, time.Duration(o.envoy)*time.Microsecond
			break
		}
	}
	c.mu.Unlock()
	if r != nil {
		c.hub.tracker.sent(r, l)
	}
}

// Answered records that the client has answered all of the state of the given generation but what
// is held back on purpose.
func (c *Conn) Answered(generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.unsettled {
		if o := &c.unsettled[i]; o.answered == 0 && o.generation <= generation {
			o.answered = c.hub.tracker.now().UnixNano()
		}
	}
}

// Acknowledged records that the client has answered all of the state of the given generation: it
// has accepted it, or all that it did not refuse.
func (c *Conn) Acknowledged(generation uint64) { c.settle(generation, acknowledged) }

// Refused records that the client has refused something of the state of the given generation.
func (c *Conn) Refused(generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.unsettled {
		c.unsettled[i].nacked = c.unsettled[i].nacked || c.unsettled[i].generation <= generation
	}
}

func (c *Conn) settle(generation uint64, as outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked = max(c.acked, generation)
	if c.settled != nil {
		close(c.settled)
		c.settled = nil
	}
	n := 0
	for n < len(c.unsettled) && c.unsettled[n].generation <= generation {
		n++
	}
	if n > 0 {
		c.hub.tracker.settle(c.unsettled[:n], as)
		c.unsettled = slices.Delete(c.unsettled, 0, n)
	}
	if len(c.unsettled) == 0 && cap(c.unsettled) > keptOpenRecords {
		c.unsettled = nil
	}
}

// keptOpenRecords is the capacity of Conn.unsettled that is kept when everything is acknowledged:
// what one push takes.
const keptOpenRecords = 1

// wait waits until what was offered up to the generation is acknowledged.
func (c *Conn) wait(ctx context.Context, generation uint64) error {
	for {
		c.mu.Lock()
		if c.hasSettled(generation) {
			c.mu.Unlock()
			return nil
		}
		if c.settled == nil {
			c.settled = make(chan struct{})
		}
		settled := c.settled
		c.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hasSettled reports whether all that was offered up to the generation is acknowledged. The caller
// holds mu.
func (c *Conn) hasSettled(generation uint64) bool {
	return c.acked >= min(generation, c.first) && (len(c.unsettled) == 0 || c.unsettled[0].generation > generation)
}

// Close takes the connection out of its class. Generations no longer wait for it.
func (c *Conn) Close() {
	c.hub.mu.Lock()
	if c.gone {
		c.hub.mu.Unlock()
		return
	}
	c.gone = true
	c.hub.remove(c)
	c.hub.mu.Unlock()

	c.settle(math.MaxUint64, left)
	if c.hub.left != nil {
		c.hub.left(c)
	}
}
