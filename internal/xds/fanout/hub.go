package fanout

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// ClassID names a class of proxies that get the same configuration. The Compiler gives it out; here
// it is opaque.
type ClassID = resource.ClassID

// ClassChange is the new state of one class, as the Compiler tells it.
type ClassChange = resource.ClassState

// Generation is one step of the world, as far as connections are concerned.
type Generation struct {
	// Number grows from one Generation to the next.
	Number uint64
	// Cause describes to a user what happened: "VirtualService default/reviews".
	Cause string
	// Observed is when the oldest of its events reached this process.
	Observed time.Time
	// RemovesEndpoints is set if an endpoint is gone that was there before.
	RemovesEndpoints bool
	// Changed are the classes whose state is new. Each state's generation is at least that of any
	// state that the class had before. The list is the caller's again when Publish returns.
	Changed []ClassChange
	// Moved are connections whose class or own addresses change. They are handled before Changed.
	Moved []Move
}

// Move puts a connection into another class, or gives it new addresses of its own.
type Move struct {
	Conn    *Conn
	Class   ClassID
	State   resource.State
	Overlay resource.Overlay
}

// Options are what a Hub needs.
type Options struct {
	// Throttle is how many pushes may be computed and sent at a time (PILOT_PUSH_THROTTLE); 0 takes
	// it from the machine's size.
	Throttle int
	Metrics  *observe.Metrics
	Now      func() time.Time
	// Left, unless it is nil, is called once for each connection when it has left its class. The
	// goroutine that closes the connection calls it, without locks.
	Left func(*Conn)
	// Progress, unless it is nil, is called for each generation whenever another 64th of the
	// connections that it touches has settled it, until all but one in eight have. The rest may be
	// stuck, so they do not count. It must not block, and must not call the Hub.
	Progress func(Progress)
	// Recorded, unless it is nil, is called with the record of each generation that touched a
	// connection, as Finished delivers it. It must not block, and must not call the Hub.
	Recorded func(Record)
}

// Progress is how far a generation has come.
type Progress struct {
	Generation uint64
	NearlyAll  bool          // all have settled it but one in eight
	Envoy      time.Duration // Record.Envoy, so far
}

// Hub knows the connections by class and wakes those that a generation touches.
//
// Register and Publish are called where the Compiler orders them (from Join and from Advance), so
// that no connection misses a generation between the choice of its class and its registration. All
// else may be called by anyone.
type Hub struct {
	now     func() time.Time
	metrics *observe.Metrics
	left    func(*Conn)
	pool    *pool
	tracker *tracker
	latest  uint64 // number of the latest generation; only Publish uses it

	// mu guards who is in which class. Publish holds it for one class at a time, so that streams
	// that end do not wait for a publication to all others.
	mu      sync.Mutex
	classes map[ClassID][]*Conn
}

// NewHub returns a Hub without connections.
func NewHub(o Options) *Hub {
	h := &Hub{
		now:     o.Now,
		metrics: o.Metrics,
		left:    o.Left,
		pool:    newPool(o),
		tracker: newTracker(o),
		classes: map[ClassID][]*Conn{},
	}
	o.Metrics.Push.Stale.Set(func() float64 { return float64(h.stale()) })
	return h
}

// StaleAfter is how long a connection may leave a generation unacknowledged before it counts as
// stale.
const StaleAfter = 10 * time.Second

// stale counts the connections that have left a generation unacknowledged for longer than
// StaleAfter. It looks at all connections.
func (h *Hub) stale() (n int) {
	limit := h.now().Add(-StaleAfter)
	for _, c := range h.all() {
		if c.behindSince(limit) {
			n++
		}
	}
	return n
}

// throttle is Istio's heuristic for PILOT_PUSH_THROTTLE=0.
func throttle(n int) int {
	if n > 0 {
		return n
	}
	return min(15+5*runtime.GOMAXPROCS(0), 100)
}

// Register adds a connection. Its first Take gives the state to start from.
func (h *Hub) Register(class ClassID, state resource.State, own resource.Overlay) *Conn {
	c := &Conn{
		hub:     h,
		class:   class,
		own:     own,
		first:   state.Generation(),
		pending: state,
		offered: h.now(),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(c)
	return c
}

// Calm returns a channel that is closed when no push is under way, or nil if none is. Pushes that
// are stuck do not count.
func (h *Hub) Calm() <-chan struct{} { return h.pool.calm() }

// BusySince reports whether there were pushes to many connections in succession since t.
func (h *Hub) BusySince(t time.Time) bool { return h.pool.busySince(t) }

// Publish offers a generation to all connections that it touches. It does not wait for any of them.
func (h *Hub) Publish(g Generation) {
	h.latest = max(h.latest, g.Number)
	r := h.tracker.open(g)
	touched := 0
	for _, m := range g.Moved {
		touched += h.move(m, r)
	}
	for _, change := range g.Changed {
		touched += h.offer(change, r)
	}
	h.tracker.published(r, touched)
}

func (h *Hub) move(m Move, r *record) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.Conn.gone {
		return 0
	}
	h.remove(m.Conn)
	m.Conn.class = m.Class
	h.add(m.Conn)
	state := m.State
	if state.Generation() < h.latest {
		// A connection's generations never go back, or an ACK of the old class would count for the
		// new one.
		state = state.At(h.latest)
	}
	return m.Conn.offer(state, &m.Overlay, r)
}

// Connections returns the number of connections of a class.
func (h *Hub) Connections(class ClassID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.classes[class])
}

// Settle waits until each connection that is there now has acknowledged what it was offered up to
// the given generation, or has left. It fails only with ctx.
func (h *Hub) Settle(ctx context.Context, generation uint64) error {
	for _, c := range h.all() {
		if err := c.wait(ctx, generation); err != nil {
			return err
		}
	}
	return nil
}

// Finished delivers the record of each generation that touched a connection, once all of these have
// acknowledged it or left. At most 256 wait to be read; then the oldest is dropped and counted.
func (h *Hub) Finished() <-chan Record { return h.tracker.finished }

// all returns the connections that there are now.
func (h *Hub) all() (conns []*Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, members := range h.classes {
		conns = append(conns, members...)
	}
	return conns
}

// offer offers the new state of a class to all of it, and returns to how many.
func (h *Hub) offer(change ClassChange, r *record) (touched int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.classes[change.Class] {
		touched += c.offer(change.State, nil, r)
	}
	return touched
}

// add enters c into its class. The caller holds mu.
func (h *Hub) add(c *Conn) {
	members := h.classes[c.class]
	c.index = len(members)
	h.classes[c.class] = append(members, c)
}

// remove takes c out of its class; the last member takes its place. The caller holds mu.
func (h *Hub) remove(c *Conn) {
	members := h.classes[c.class]
	last := len(members) - 1
	members[c.index] = members[last]
	members[c.index].index = c.index
	members[last] = nil
	if last == 0 {
		delete(h.classes, c.class)
		return
	}
	h.classes[c.class] = members[:last]
}
