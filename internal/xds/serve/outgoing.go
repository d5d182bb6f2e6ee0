package serve

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// outgoing is a response on its way into the codec.
type outgoing struct {
	fanout.Frame
	bundle *bundle // whose list of parts the frame's is; nil for a response of few resources
	lent   *lent
	queue  admission.SendQueue
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
	o.queue.Add(o.Size)
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
	m.of.queue.Add(-m.size)
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
