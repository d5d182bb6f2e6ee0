package serve

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// queueLimit is how many bytes of responses may wait in this process for one client when the next is handed over: so at most
// these wait, and one response, of which what streams have in common is not copied. It is less than the 64 KiB from which on grpc-go
// lets a send wait, so no send waits in there.
const queueLimit = 16 << 10

// queue counts the bytes of a stream's responses that were handed to grpc-go and not yet to the kernel. When it is full the next
// send waits; who waits so gives its turn to push back before.
type queue struct {
	total *atomic.Int64 // of all streams

	mu    sync.Mutex
	bytes int
	roomy chan struct{} // closed when there is room; nil while nobody waits for that
	over  bool          // the stream has ended: what is left is not sent
}

// full tells whether a send would wait.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > queueLimit
}

// wait returns when there is room, or with the end of ctx as a gRPC status.
func (q *queue) wait(ctx context.Context) error {
	for {
		q.mu.Lock()
		if q.bytes <= queueLimit {
			q.mu.Unlock()
			return nil
		}
		if q.roomy == nil {
			q.roomy = make(chan struct{})
		}
		roomy := q.roomy
		q.mu.Unlock()
		select {
		case <-roomy:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (q *queue) add(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.total.Add(int64(n))
	q.bytes += n
	if n < 0 && q.roomy != nil && q.bytes <= queueLimit {
		close(q.roomy)
		q.roomy = nil
	}
}

// end forgets what is left, when the stream has ended: grpc-go lets go of it with the connection, and does not say so.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total.Add(-int64(q.bytes))
	q.over, q.bytes = true, 0
}

// outgoing is a response on its way into the codec.
type outgoing struct {
	fanout.Frame
	bundle *bundle // whose list of parts the frame's is; nil for a response of few resources
	lent   *lent
	queue  queue
	usual  message // of the response, if it is not that of one before that is still on its way
}

// prepare has the frame's list of parts be a lent one, if there will be many.
func (o *outgoing) prepare(upserts int) {
	if upserts >= manyUpserts {
		o.bundle = o.lent.bundle()
		o.Parts = o.bundle.parts
	}
}

// message are the buffers of one response for grpc-go, used again when it has let go of them.
type message struct {
	holds  atomic.Int32 // references to it
	busy   atomic.Bool  // it is on its way
	size   int
	last   lastBuffer
	first  mem.SliceBuffer
	all    [2]mem.Buffer // of the usual response, which has two parts
	of     *outgoing
	bundle *bundle // nil if it has no more parts than usual
}

// buffers are the frame's bytes for grpc-go, the last of which tells the queue when it lets go of them.
func (o *outgoing) buffers() mem.BufferSlice {
	b := o.bundle
	o.bundle = nil // which is of this response, and others' when it is through
	last := len(o.Parts) - 1
	if last < 0 {
		return nil
	}
	m := &o.usual
	if m.busy.Load() {
		m = &message{}
	}
	m.busy.Store(true)
	m.holds.Store(1)
	m.of, m.size, m.last = o, o.Size, lastBuffer{o.Parts[last], m}
	o.queue.add(o.Size)
	all := m.all[:0]
	switch {
	case last == 1:
		m.first = o.Parts[0]
		all = append(all, &m.first)
	case last > 1:
		if m.bundle = b; m.bundle == nil {
			m.bundle = &bundle{}
		}
		m.bundle.parts = o.Parts
		return m.bundle.buffers(o.lent, &m.last)
	}
	return append(all, &m.last)
}

// done notes that grpc-go has written all of the response, or has given it up.
func (m *message) done() {
	m.of.queue.add(-m.size)
	m.first, m.last.SliceBuffer = nil, nil
	if m.bundle != nil {
		m.of.lent.giveBack(m.bundle)
		m.bundle = nil
	}
	m.busy.Store(false)
}

// lastBuffer is the end of a response. grpc-go frees it when it has written it to the kernel, or into the buffer before that; whoever
// else holds it, as SendMsg does until it returns, has a reference too.
type lastBuffer struct {
	mem.SliceBuffer
	of *message
}

// Ref implements mem.Buffer.
func (b *lastBuffer) Ref() { b.of.holds.Add(1) }

// Free implements mem.Buffer.
func (b *lastBuffer) Free() {
	if m := b.of; m.holds.Add(-1) == 0 {
		m.done()
	}
}
