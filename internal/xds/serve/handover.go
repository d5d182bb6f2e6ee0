package serve

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	defaultNotice = 200 * time.Millisecond
	// handoverPace is the time between the ends of two connections, so that a whole fleet does not
	// reach the next server at once.
	handoverPace = time.Millisecond
	// stopPoll is how often Stop looks whether what it waits for is so.
	stopPoll = 5 * time.Millisecond
)

// openConns are the connections of a server.
type openConns struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

func (o *openConns) add(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = map[net.Conn]struct{}{}
	}
	o.open[c] = struct{}{}
}

func (o *openConns) remove(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, c)
}

// list returns the connections in random order, so that no connection is always closed last.
func (o *openConns) list() []net.Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	conns := make([]net.Conn, 0, len(o.open))
	for c := range o.open {
		conns = append(conns, c)
	}
	return conns
}

func (o *openConns) isEmpty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open) == 0
}

// Stop hands the clients over to other servers. It takes no more connections, tells clients that
// theirs will end, and has streams seal what their clients have. After a short notice it ends the
// connections one after the other (all at once if there is no other server), and those that are
// left when ctx is done. To a client the stream ends as Unavailable, which all try again at once
// and without a warning. It returns when the streams have ended or ctx is done.
func (s *Server) Stop(ctx context.Context) {
	s.drain()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop() // sends GOAWAY, and waits for what the rest of this ends
	}()
	s.seal(ctx)
	s.awaitLeaving(ctx)
	s.endConnections(ctx)
	go s.grpc.Stop()
	select {
	case <-stopped:
	case <-ctx.Done():
	}
}

// awaitLeaving gives clients the time of the notice.
func (s *Server) awaitLeaving(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.notice)
	defer cancel()
	pollUntil(ctx, s.conns.isEmpty)
}

// pollUntil returns when the condition holds or ctx is done.
func pollUntil(ctx context.Context, holds func() bool) {
	poll := time.NewTicker(stopPoll)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// endConnections closes the connections until ctx is done, at a pace if others take the clients.
func (s *Server) endConnections(ctx context.Context) {
	pace := time.NewTicker(handoverPace)
	defer pace.Stop()
	for _, c := range s.conns.list() {
		_ = c.Close() // its streams learn it from grpc-go
		if s.options.Alone {
			continue
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}
