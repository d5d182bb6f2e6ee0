package admission

import (
	"context"
	"net"
	"sync"
	"time"
)

// Gate limits how many new streams receive their first responses at a time, so that a fleet which
// connects at once is brought up one stream after the other. The rest wait, because a stream in its
// first exchange holds megabytes (requests with thousands of names, data in the kernel) and a
// waiting one holds kilobytes.
//
// A new stream passes two limits:
//
//   - Queue bounds how many first requests are read. A sidecar that reconnects fills its first
//     request with the names and versions of all that it has. Requests outside of the queue are not
//     read, and HTTP/2's flow control leaves most of them with the clients.
//   - Enter admits as many streams as there are CPUs. It waits while pushes are under way, and
//     while too many bytes of first responses are in flight: sent and not answered.
//
// Enter waits for Patience at most. Bytes in flight mean either that this process has more to do
// than it can, when waiting is right, or that clients are slow, when waiting would hold up the
// fleet for nothing. The server cannot tell the two apart; so a fleet is admitted at some rate
// whatever the admitted clients do. For the same reason a stream that sends no request within
// Patience loses its place in the queue.
//
// The waiting goroutines are those of streams, so there are as many as streams at most.
type Gate struct {
	queue    Semaphore
	slots    Semaphore
	maxBytes int // that may be in flight
	patience time.Duration
	priority *pushPriority

	mu    sync.Mutex
	bytes int           // in flight
	room  chan struct{} // closed when bytes falls below maxBytes; nil while nobody waits
}

const (
	// bytesPerCPU is how many bytes may be in flight for each CPU: what one sends in less than 10
	// ms.
	bytesPerCPU = 2 << 20
	// Patience is how long Enter waits for room and for pushes. So for each CPU at least 100
	// streams per second are admitted.
	Patience = 10 * time.Millisecond
	// queuePerSlot is the number of places in the queue for each slot. It is large enough that
	// silent clients, which keep a place for Patience, delay fewer streams than are admitted: 1,600
	// places per second and CPU. Reading a request that is larger than a window takes a round trip.
	queuePerSlot = 16
)

// NewGate returns a gate that gives way to pushes. maxBytes is how many bytes of first responses
// may be in flight; 0 means 2 MiB for each CPU.
func NewGate(p Pushes, maxBytes int) *Gate {
	slots := NewSemaphore()
	if maxBytes == 0 {
		maxBytes = cap(slots) * bytesPerCPU
	}
	return &Gate{
		queue:    make(Semaphore, queuePerSlot*cap(slots)),
		slots:    slots,
		maxBytes: maxBytes,
		patience: Patience,
		priority: newPushPriority(p),
	}
}

// Listener returns l with a limit on how many connections are accepted per second: 1,000 for each
// CPU, and fewer while pushes go on.
func (g *Gate) Listener(l net.Listener) net.Listener { return newListener(l, g.priority) }

// Queue returns the places of streams whose first request is being read or waits in Enter.
func (g *Gate) Queue() Semaphore { return g.queue }

// Enter waits until a stream may be sent its first responses; the caller must call Leave when it
// was. It returns the cause if ctx ends before.
func (g *Gate) Enter(ctx context.Context) error {
	if err := g.slots.Acquire(ctx); err != nil {
		return err
	}
	Pause(ctx, g.priority.delayFirstResponse(time.Now()))
	if err := g.waitForAll(ctx, g.priority.pushes.Calm(), g.awaitRoom()); err != nil {
		g.Leave()
		return err
	}
	return nil
}

// waitForAll waits until all channels that are not nil are closed, or for patience. It returns the
// cause if ctx ends before.
func (g *Gate) waitForAll(ctx context.Context, all ...<-chan struct{}) error {
	var limit *time.Timer
	for _, one := range all {
		if one == nil {
			continue
		}
		if limit == nil {
			limit = time.NewTimer(g.patience)
			defer limit.Stop()
		}
		select {
		case <-one:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Leave gives back the slot that Enter took.
func (g *Gate) Leave() { g.slots.Release() }

// awaitRoom returns a channel that is closed when more bytes may be in flight, or nil if they may
// now.
func (g *Gate) awaitRoom() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bytes < g.maxBytes {
		return nil
	}
	if g.room == nil {
		g.room = make(chan struct{})
	}
	return g.room
}

// InFlight is the number of bytes of first responses that one stream was sent and has not answered.
// Whoever drives the stream guards it.
type InFlight int

// Sent counts bytes of a first response.
func (g *Gate) Sent(f *InFlight, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bytes += bytes
	*f += InFlight(bytes)
}

// Answered notes that a stream has answered what it was sent, or has ended. Nearly all answers are
// to pushes, of all streams at the same time; those take no lock.
func (g *Gate) Answered(f *InFlight) {
	if *f == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bytes -= int(*f)
	*f = 0
	if g.room != nil && g.bytes < g.maxBytes {
		close(g.room)
		g.room = nil
	}
}

// Load returns how many streams have entered and not left, and how many bytes are in flight.
func (g *Gate) Load() (streams, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.slots), g.bytes
}
