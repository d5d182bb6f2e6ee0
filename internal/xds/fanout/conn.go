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

// Conn is one connection as the Hub sees it. It has no or one pending push: a newer state takes the place of one that is
// still waiting, so a slow connection costs the pipeline nothing and gets the newest state when it is ready.
type Conn struct {
	hub  *Hub
	task task

	// Guarded by hub.mu.
	class ClassID
	index int
	gone  bool

	mu      sync.Mutex
	pending resource.State // that is to be taken, none if nothing is
	offered time.Time      // Push.Offered
	own     resource.Overlay
	open    []opening
	first   uint64        // generation of the state that it was registered with
	acked   uint64        // generation up to which it has acknowledged, the largest number when it has left
	settled chan struct{} // closed when acked grows; nil while nobody waits for that
}

// opening is a generation that this connection has not acknowledged. Conn.open is ordered by want, and no longer than
// the ledger's list of open records.
type opening struct {
	record *record
	want   uint64 // acknowledging a state of this generation settles it
	nacked bool
}

// Start makes the Hub call push whenever a push may be pending, and after each Poke: in a goroutine of the Hub's, one call at a
// time, as many for all connections together as the throttle says. It is called once at most.
func (c *Conn) Start(push func()) {
	p := &c.hub.pool
	p.mu.Lock()
	c.task.push = push
	p.mu.Unlock()
	if c.Behind() {
		p.add(c)
	}
}

// Poke has push called soon.
func (c *Conn) Poke() { c.hub.pool.add(c) }

// Yield lets others have the turn of a push that does not come to its end. Push goes on, and is not called again meanwhile.
func (c *Conn) Yield() { c.hub.pool.yield(c) }

// Take returns the pending push, if there is one, and the connection has none from then on.
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

// Behind tells whether a push is pending.
func (c *Conn) Behind() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.pending.IsNone()
}

// Class is the connection's class as of now.
func (c *Conn) Class() ClassID {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return c.class
}

// offer replaces the pending push and returns 1 if the record did not know this connection yet, else 0. The caller
// holds hub.mu.
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
	if n := len(c.open); n > 0 && c.open[n-1].record == r {
		c.open[n-1].want = want
		return 0
	}
	if len(c.open) >= maxOpen {
		c.open = slices.Delete(c.open, 0, 1) // the ledger has let go of its record by now
	}
	c.open = append(c.open, opening{record: r, want: want})
	return 1
}

// Sent counts bytes of a response that brings the client to the state of the given generation. Bytes of a push that
// merged several generations count for the newest.
func (c *Conn) Sent(generation uint64, bytes int) {
	c.mu.Lock()
	var r *record
	for _, o := range c.open {
		if o.want <= generation {
			r = o.record
		}
	}
	c.mu.Unlock()
	if r != nil {
		c.hub.ledger.sent(r, bytes)
	}
}

// Acknowledged says that the client has answered all of the state of the given generation: it has accepted it, or all
// that it did not refuse.
func (c *Conn) Acknowledged(generation uint64) { c.settle(generation, acknowledged) }

// Refused says that the client has refused something of the state of the given generation.
func (c *Conn) Refused(generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.open {
		c.open[i].nacked = c.open[i].nacked || c.open[i].want <= generation
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
	for n < len(c.open) && c.open[n].want <= generation {
		n++
	}
	if n > 0 {
		c.hub.ledger.settle(c.open[:n], as)
		c.open = slices.Delete(c.open, 0, n)
	}
	if len(c.open) == 0 && cap(c.open) > keptOpenings {
		c.open = nil
	}
}

// keptOpenings is how much room for openings a connection keeps that has acknowledged everything: what one push takes.
const keptOpenings = 1

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

// hasSettled tells whether all that was offered up to the generation is acknowledged. The caller holds mu.
func (c *Conn) hasSettled(generation uint64) bool {
	return c.acked >= min(generation, c.first) && (len(c.open) == 0 || c.open[0].want > generation)
}

// Close takes the connection out of its class. Generations do not wait for it any longer.
func (c *Conn) Close() {
	c.hub.mu.Lock()
	if c.gone {
		c.hub.mu.Unlock()
		return
	}
	c.gone = true
	c.hub.remove(c)
	c.hub.mu.Unlock()

	c.settle(math.MaxUint64, departed)
	if c.hub.left != nil {
		c.hub.left(c)
	}
}
