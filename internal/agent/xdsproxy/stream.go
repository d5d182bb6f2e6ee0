package xdsproxy

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// stream is one of Envoy, and its streams to the control plane, one after the other.
type stream struct {
	proxy *Proxy
	v     *wire.Variant
	down  grpc.ServerStream
	// requests of Envoy are handed over without a queue: who does not take them has Envoy wait.
	requests chan *wire.Message
	// closed is what Envoy's stream ended with, before requests is closed.
	closed error

	// kept are the requests that a further stream to the control plane would begin with. They are
	// kept until the first response.
	kept      []*wire.Message
	keptBytes int
	isTooMuch bool
	// answered says that the control plane has responded.
	answered atomic.Bool
	// sending is held while Envoy is sent a response.
	sending sync.Mutex
	isFresh bool // Envoy has reported nothing
}

// maxKept is how many bytes of requests are kept: as many as the control plane takes in one. When
// there are more, Envoy has to open another stream.
const maxKept = 8 << 20

// run serves the stream until it ends.
func (s *stream) run(ctx context.Context) error {
	go s.receive(ctx)
	first, ok := s.next(ctx)
	if !ok {
		return s.end(ctx)
	}
	q, err := s.v.ReadRequest(first)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.isFresh = !q.Reports
	s.keep(first)
	first.Free()
	for {
		err := s.relay(ctx)
		s.count(err)
		if ctx.Err() != nil || errors.Is(err, errEnvoyEnded) {
			return s.end(ctx)
		}
		s.proxy.options.Log.Warn("there is no stream to the control plane", "error", err)
		if s.answered.Load() || s.isTooMuch || !isAway(err) {
			return err
		}
		if s.isFresh && !s.proxy.cache.isEmpty() {
			return s.serveLast(ctx)
		}
		if !s.proxy.pause(ctx) {
			return s.end(ctx)
		}
	}
}

// errEnvoyEnded says that Envoy has ended its stream.
var errEnvoyEnded = errors.New("the stream was ended by Envoy")

// isAway reports whether an error means that the control plane may be back later.
func isAway(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

// receive hands requests over until Envoy's stream ends.
func (s *stream) receive(ctx context.Context) {
	defer close(s.requests)
	for {
		m := &wire.Message{}
		if err := s.down.RecvMsg(m); err != nil {
			s.closed = err
			return
		}
		select {
		case s.requests <- m:
		case <-ctx.Done():
			m.Free()
			s.closed = ctx.Err()
			return
		}
	}
}

// next returns Envoy's next request, or false if there is none any more.
func (s *stream) next(ctx context.Context) (*wire.Message, bool) {
	select {
	case m, ok := <-s.requests:
		return m, ok
	case <-ctx.Done():
		return nil, false
	}
}

// end returns what a stream ends with that Envoy has ended, or a newer one.
func (s *stream) end(ctx context.Context) error {
	if s.down.Context().Err() == nil && ctx.Err() != nil {
		return status.Error(codes.Aborted, "a newer stream of Envoy takes the place of this one")
	}
	s.proxy.counts.envoyTerminations.Add(1)
	return nil
}

// keep keeps a request until the control plane has answered.
func (s *stream) keep(m *wire.Message) {
	if s.answered.Load() || s.isTooMuch {
		s.release()
		return
	}
	s.keptBytes += m.Data.Len()
	if s.keptBytes > maxKept {
		s.isTooMuch = true
		s.release()
		return
	}
	s.kept = append(s.kept, m.Copy())
}

func (s *stream) release() {
	for _, m := range s.kept {
		m.Free()
	}
	s.kept = nil
}

func (s *stream) count(err error) {
	s.proxy.counts.connected.Store(false)
	switch {
	case errors.Is(err, errEnvoyEnded):
	case s.answered.Load():
		s.proxy.counts.terminations.Add(1)
	default:
		s.proxy.counts.failures.Add(1)
	}
}

// relay opens a stream to the control plane and passes messages on until one of both ends.
func (s *stream) relay(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up, err := s.proxy.open(ctx, s.v)
	if err != nil {
		return err
	}
	r := &relay{stream: s, up: up, answers: make(chan *wire.Message, maxAnswers)}
	if s.proxy.options.Filters != nil {
		r.filters = newFilterQueue(ctx, cancel, r)
		defer func() { cancel(); r.filters.running.Wait() }()
	}
	sent := make(chan error, 1)
	go func() {
		err := r.send(ctx)
		if err != nil {
			cancel()
		}
		sent <- err
	}()
	err = r.receive()
	cancel()
	if sendErr := <-sent; errors.Is(sendErr, errEnvoyEnded) || status.Code(err) == codes.Canceled && sendErr != nil {
		return sendErr
	}
	return err
}

// pause waits before another attempt. It returns false if ctx has ended.
func (p *Proxy) pause(ctx context.Context) bool {
	p.mu.Lock()
	wait := p.backoff.Next()
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// serveLast serves the last configuration until the control plane answers again. Envoy then opens
// another stream and reports what it has.
func (s *stream) serveLast(ctx context.Context) error {
	s.proxy.options.Log.Info("Envoy gets its last configuration, as the control plane cannot be reached")
	probing, cancel := context.WithCancel(ctx)
	back, stopped := make(chan struct{}), make(chan struct{})
	defer func() { cancel(); <-stopped }()
	go func() {
		defer close(stopped)
		if s.awaitControlPlane(probing) {
			close(back)
		}
	}()
	o := newOffline(s.v, s.proxy.cache)
	for _, m := range s.kept {
		if err := s.serveFrom(o, m); err != nil {
			return err
		}
	}
	for {
		select {
		case <-back:
			return status.Error(codes.Unavailable, "the control plane is back: say what you have")
		case m, ok := <-s.requests:
			if !ok {
				return s.end(ctx)
			}
			err := s.serveFrom(o, m)
			m.Free()
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return s.end(ctx)
		}
	}
}

func (s *stream) serveFrom(o *offline, m *wire.Message) error {
	q, err := s.v.ReadRequest(m)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.proxy.acceptance.saw(q)
	answers, err := o.answer(m)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if err := s.down.SendMsg(a); err != nil {
			return err
		}
	}
	return nil
}

// awaitControlPlane waits until the control plane has answered Envoy's first request. It returns
// false if ctx ends before.
func (s *stream) awaitControlPlane(ctx context.Context) bool {
	for s.proxy.pause(ctx) {
		if s.probe(ctx) == nil {
			return true
		}
	}
	return false
}

func (s *stream) probe(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up, err := s.proxy.open(ctx, s.v)
	if err != nil {
		return err
	}
	if err := up.SendMsg(s.kept[0]); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	m := &wire.Message{}
	if err := up.RecvMsg(m); err != nil {
		return err
	}
	m.Free()
	return nil
}

// isEnvoys reports whether Envoy takes resources of a type.
func isEnvoys(typeURL string) bool { return strings.HasPrefix(typeURL, "type.googleapis.com/envoy.") }

// asksForListeners reports whether it is time for the agent's own subscriptions: Envoy has what
// comes first.
func asksForListeners(q wire.Request) bool { return q.TypeURL == typeurl.Listener }
