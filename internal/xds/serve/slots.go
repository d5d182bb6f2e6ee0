package serve

import (
	"context"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
)

// Server.requestSlots limits how many requests that ask for something are answered at a time to the
// number of CPUs. Acknowledgements and pushes need no slot. So a push competes with that many
// requests alone, however many clients connect at once or ask without end.

// acquireSlot waits for a slot, unless the stream has one. It returns the cause if ctx ends before.
// The caller drives.
func (st *stream) acquireSlot(ctx context.Context) error {
	if st.hasSlot {
		return nil
	}
	err := st.server.requestSlots.Acquire(ctx)
	st.hasSlot = err == nil
	return err
}

// releaseSlot gives the slot back, if the stream has one. A stream does so before it waits for its
// client in a send.
func (st *stream) releaseSlot() {
	if st.hasSlot {
		st.hasSlot = false
		st.server.requestSlots.Release()
	}
}

// asks reports whether a request asks for something. Others only answer a response.
func (r *request) asks() bool { return r.Nonce == "" || len(r.Subscribe) > 0 || r.Lists != nil }

// throttle delays the next request if the client asks for too much. A request that is not read yet
// is held back by HTTP/2's flow control, and the client's answers to pushes wait behind it. Pushes
// go on.
func (st *stream) throttle(ctx context.Context) {
	wait := st.requests.Take(st.server.options.Now().Sub(st.since))
	if wait == 0 {
		return
	}
	if !st.throttled {
		st.throttled = true
		st.log().Warn("proxy asks for more than it may: its requests wait",
			"per_second", admission.RequestRate, "at_once", admission.RequestBurst)
	}
	st.server.instruments.xds.Held.Inc()
	admission.Pause(ctx, wait)
}
