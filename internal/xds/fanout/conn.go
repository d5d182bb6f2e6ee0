package fanout

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/view"
)

// Push is what a connection should be brought to.
type Push struct {
	State *view.State
	Own   view.Own
	// Offered is when the oldest generation in it was published.
	Offered time.Time
}

// Conn is one connection as the Hub sees it. It has no or one pending push: a newer state takes the place of one that is
// still waiting, so a slow connection costs the pipeline nothing and gets the newest state when it is ready.
type Conn struct {
	hub   *Hub
	shard *shard
	wake  chan struct{} // capacity 1: a signal that is there already says it all

	// Guarded by shard.mu.
	class ClassID
	index int
	gone  bool

	mu      sync.Mutex
	own     view.Own
	pending *Push
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

// Wake has a signal when a push may be pending.
func (c *Conn) Wake() <-chan struct{} { return c.wake }

// Take returns the pending push, if there is one, and the connection has none from then on.
func (c *Conn) Take() (Push, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		return Push{}, false
	}
	p := *c.pending
	c.pending = nil
	return p, true
}

// Turn is the throttle of the Hub: a stream that has something to push sends on it, alone or in a select, and calls Done
// when it has pushed.
func (c *Conn) Turn() chan<- struct{} { return c.hub.turns }

// Done gives a turn back.
func (c *Conn) Done() { <-c.hub.turns }

// Behind tells whether a push is pending.
func (c *Conn) Behind() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending != nil
}

// Class is the connection's class as of now.
func (c *Conn) Class() ClassID {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return c.class
}

// offer replaces the pending push and returns 1 if the record did not know this connection yet, else 0. The caller
// holds shard.mu.
func (c *Conn) offer(state *view.State, own *view.Own, r *record) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own != nil {
		c.own = *own
	}
	touched := c.note(r, state.Generation)
	if c.pending == nil {
		c.pending = &Push{Offered: r.Published}
	} else if touched == 1 {
		c.hub.metrics.Push.Coalesced.Inc()
	}
	c.pending.State, c.pending.Own = state, c.own
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return touched
}

func (c *Conn) note(r *record, want uint64) int {
	if n := len(c.open); n > 0 && c.open[n-1].record == r {
		c.open[n-1].want = want
		return 0
	}
	if len(c.open) >= maxOpen {
		c.open = c.open[1:] // the ledger has let go of its record by now
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
	c.acked = max(c.acked, generation)
	if c.settled != nil {
		close(c.settled)
		c.settled = nil
	}
	n := 0
	for n < len(c.open) && c.open[n].want <= generation {
		n++
	}
	done := c.open[:n:n]
	c.open = c.open[n:]
	if len(c.open) == 0 {
		c.open = nil
	}
	c.mu.Unlock()
	if n > 0 {
		c.hub.ledger.settle(done, as)
	}
}

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
	c.shard.mu.Lock()
	if c.gone {
		c.shard.mu.Unlock()
		return
	}
	c.gone = true
	c.shard.remove(c)
	c.shard.mu.Unlock()

	c.settle(math.MaxUint64, departed)
	if c.hub.left != nil {
		c.hub.left(c)
	}
}
