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
	partList *partList // whose list Frame.Parts is; nil for a response of few resources
	pools    *pools
	queue    admission.SendQueue
	msg      message // used again for each response, unless grpc-go still has it
}

// prepare has the frame use a list of parts from pools, if there will be many.
func (o *outgoing) prepare(upserts int) {
	if upserts >= manyUpserts {
		o.partList = o.pools.partList()
		o.Parts = o.partList.parts
	}
}

// message are the buffers of one response for grpc-go. They are used again when grpc-go has freed
// them.
type message struct {
	holds    atomic.Int32 // references
	inUse    atomic.Bool  // grpc-go has it
	size     int
	last     lastBuffer
	first    mem.SliceBuffer
	all      [2]mem.Buffer // of the usual response, which has two parts
	of       *outgoing
	partList *partList // nil for two parts at most
}

// buffers returns the frame's bytes for grpc-go. When grpc-go frees the last one, the send queue is
// told.
func (o *outgoing) buffers() mem.BufferSlice {
	b := o.partList
	o.partList = nil // the message has it, and returns it to pools
	last := len(o.Parts) - 1
	if last < 0 {
		return nil
	}
	m := &o.msg
	if m.inUse.Load() {
		m = &message{}
	}
	m.inUse.Store(true)
	m.holds.Store(1)
	m.of, m.size, m.last = o, o.Size, lastBuffer{o.Parts[last], m}
	o.queue.Add(o.Size)
	all := m.all[:0]
	switch {
	case last == 1:
		m.first = o.Parts[0]
		all = append(all, &m.first)
	case last > 1:
		if m.partList = b; m.partList == nil {
			m.partList = &partList{}
		}
		m.partList.parts = o.Parts
		return m.partList.buffers(o.pools, &m.last)
	}
	return append(all, &m.last)
}

// done records that grpc-go has written all of the response, or has given it up.
func (m *message) done() {
	m.of.queue.Add(-m.size)
	m.first, m.last.SliceBuffer = nil, nil
	if m.partList != nil {
		m.of.pools.returnPartList(m.partList)
		m.partList = nil
	}
	m.inUse.Store(false)
}

// lastBuffer is the end of a response. grpc-go frees it when it has written it to the kernel, or
// into the buffer before that. Whoever else holds it, as SendMsg does until it returns, has a
// reference too.
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
