package xdsproxy

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// relay is a stream of Envoy on one stream to the control plane.
type relay struct {
	*stream
	up grpc.ClientStream
	// answers of Hooks are sent by who sends Envoy's requests: who receives must not wait until it
	// may send, as both sides might.
	answers    chan *wire.Message
	subscribed bool
	// healthChanged is closed when the health of the workload is to be told again; nil before the
	// agent's own subscriptions.
	healthChanged <-chan struct{}
	// filters has filters follow for which something is fetched; nil if none are changed.
	filters *filterQueue
}

// maxAnswers of Hooks may wait to be sent. A control plane that sends so much more than it reads
// loses the stream.
const maxAnswers = 64

// send sends requests until the stream to the control plane ends.
func (r *relay) send(ctx context.Context) error {
	for _, m := range r.kept {
		if err := r.pass(m); err != nil {
			return err
		}
	}
	for {
		select {
		case m, ok := <-r.requests:
			if !ok {
				return r.sourceEnded()
			}
			r.keep(m)
			err := r.pass(m)
			m.Free()
			if err != nil {
				return err
			}
		case m := <-r.answers:
			if err := ignoreEOF(r.up.SendMsg(m)); err != nil {
				return err
			}
		case <-r.healthChanged:
			if err := r.tellHealth(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *relay) sourceEnded() error { return fmt.Errorf("%w: %w", errEnvoyEnded, r.closed) }

// ignoreEOF drops the error that says only that the stream has ended. Who receives knows why.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// pass passes a request of Envoy on.
func (r *relay) pass(m *wire.Message) error {
	q, err := r.v.ReadRequest(m)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	r.note(r.proxy.cache.asked(r.v, q, m))
	if r.filters != nil && q.TypeURL == typeurl.Filter {
		r.filters.saw(m)
	}
	if isOwnNonce(q.Ack) {
		return r.answered(q, m)
	}
	if err := ignoreEOF(r.up.SendMsg(m)); err != nil {
		return err
	}
	r.proxy.counts.requests.Add(1)
	r.proxy.acceptance.saw(q)
	if r.subscribed || !asksForListeners(q) {
		return nil
	}
	r.subscribed = true
	for _, h := range r.proxy.hooks {
		if err := ignoreEOF(r.up.SendMsg(h.ask(r.v))); err != nil {
			return err
		}
	}
	return r.tellHealth()
}

func (r *relay) tellHealth() error {
	m, changed := r.proxy.health.tell(r.v)
	r.healthChanged = changed
	if m == nil {
		return nil
	}
	return ignoreEOF(r.up.SendMsg(m))
}

// receive passes responses on until one of both streams ends.
func (r *relay) receive() error {
	for {
		m := &wire.Message{}
		err := r.up.RecvMsg(m)
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Unavailable, "the control plane has ended the stream")
		}
		if err != nil {
			return err
		}
		err = r.take(m)
		m.Free()
		if err != nil {
			return err
		}
	}
}

// take passes a response on to Envoy or to a Hook.
func (r *relay) take(m *wire.Message) error {
	p, err := readResponse(r.v, m)
	if err != nil {
		return status.Errorf(codes.Internal, "a response of the control plane: %v", err)
	}
	r.proxy.responded(r.stream)
	for _, h := range r.proxy.hooks {
		if h.TypeURL == p.typeURL {
			return r.hooked(h, p, m)
		}
	}
	if !isEnvoys(p.typeURL) {
		r.proxy.options.Log.Warn("a response of a type that nobody has asked for is dropped", "type", p.typeURL)
		return nil
	}
	if r.filters != nil && p.typeURL == typeurl.Filter {
		return r.filters.take(p, m)
	}
	return r.deliver(p, m)
}

// deliver passes a response on to Envoy.
func (r *relay) deliver(p response, m *wire.Message) error {
	r.note(r.proxy.cache.passed(r.v, p, m))
	r.proxy.counts.responses.Add(1)
	r.sending.Lock()
	defer r.sending.Unlock()
	return r.down.SendMsg(m)
}

// responded is called with each response.
func (p *Proxy) responded(s *stream) {
	if s.answered.Swap(true) {
		return
	}
	p.counts.connected.Store(true)
	p.mu.Lock()
	p.backoff.Reset()
	p.mu.Unlock()
}

// hooked gives a response to a Hook.
func (r *relay) hooked(h *subscriber, p response, m *wire.Message) error {
	r.note(r.proxy.cache.passed(r.v, p, m))
	answer := h.take(r.v, m, p)
	q, err := r.v.ReadRequest(answer)
	if err != nil {
		return err
	}
	r.note(r.proxy.cache.asked(r.v, q, answer))
	select {
	case r.answers <- answer:
		return nil
	default:
		return status.Errorf(codes.ResourceExhausted, "the control plane sends %s faster than it reads", h.TypeURL)
	}
}

// note logs an error of the cache, which turns it off.
func (r *relay) note(err error) {
	if err != nil {
		r.proxy.options.Log.Warn("an Envoy that starts without the control plane will not be served", "error", err)
	}
}
