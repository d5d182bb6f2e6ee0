package fanout

import (
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
}

// opening is a generation that this connection has not acknowledged. Conn.open is ordered by want, and no longer than
// the ledger's list of open records.
type opening struct {
	record *record
	want   uint64 // acknowledging a state of this generation settles it
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

// Acknowledged says that the client has accepted the state of the given generation in full.
func (c *Conn) Acknowledged(generation uint64) { c.settle(generation, acknowledged) }

// Refused says that the client has refused something of the state of the given generation: the generations up to it do
// not wait for this connection any longer.
func (c *Conn) Refused(generation uint64) { c.settle(generation, refused) }

func (c *Conn) settle(generation uint64, as outcome) {
	c.mu.Lock()
	n := 0
	for n < len(c.open) && c.open[n].want <= generation {
		n++
	}
	settled := c.open[:n:n]
	c.open = c.open[n:]
	if len(c.open) == 0 {
		c.open = nil
	}
	c.mu.Unlock()
	if n > 0 {
		c.hub.ledger.settle(settled, as)
	}
}

// Close takes the connection out of its class. Generations do not wait for it any longer.
func (c *Conn) Close() {
	c.shard.mu.Lock()
	if c.gone {
		c.shard.mu.Unlock()
		return
	}
	c.gone = true
	class := c.class
	c.shard.remove(c)
	c.shard.mu.Unlock()

	c.settle(^uint64(0), left)
	if c.hub.idle != nil && c.hub.Connections(class) == 0 {
		c.hub.idle(class)
	}
}
