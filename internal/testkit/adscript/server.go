package adscript

import (
	"fmt"
	"net"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// server is the gRPC side: it records what comes in, and sends what Run tells it to.
type server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	run *Run
}

// stream is one that Envoy opened. Run.mu guards ended and calls of write.
type stream struct {
	number  int
	write   func(Response) error
	dropped chan struct{} // closed to end it
	ended   bool
	names   map[Type][]string // state of the world: of the last request; only the reader has them
}

// record is a request in the log, with what of its subscriptions no AwaitSubscribe has taken yet.
type record struct {
	Request
	untaken []string
}

// serve starts the server and returns its port on loopback.
func (r *Run) serve() (port int, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, &server{run: r})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with Stop
	}()
	return l.Addr().(*net.TCPAddr).Port, func() { s.Stop(); <-done }, nil
}

func (s *server) DeltaAggregatedResources(
	g grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse],
) error {
	st := s.run.open(func(r Response) error {
		m, err := r.delta()
		if err != nil {
			return err
		}
		return g.Send(m)
	})
	return s.run.handle(st, func() error {
		m, err := g.Recv()
		if err == nil {
			s.run.record(fromDelta(st.number, m))
		}
		return err
	})
}

func (s *server) StreamAggregatedResources(
	g grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse],
) error {
	st := s.run.open(func(r Response) error {
		m, err := r.stateOfTheWorld()
		if err != nil {
			return err
		}
		return g.Send(m)
	})
	return s.run.handle(st, func() error {
		m, err := g.Recv()
		if err == nil {
			t := Type(m.GetTypeUrl())
			req := fromStateOfTheWorld(st.number, m, st.names[t])
			st.names[t] = m.GetResourceNames()
			s.run.record(req)
		}
		return err
	})
}

func (r *Run) open(write func(Response) error) *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	s := &stream{number: r.streams, write: write, dropped: make(chan struct{}), names: map[Type][]string{}}
	r.current = s
	r.note("%d   stream opened", s.number)
	r.signal()
	return s
}

// handle reads until the stream ends, from either side.
func (r *Run) handle(s *stream, read func() error) error {
	failed := make(chan error, 1)
	go func() {
		for {
			if err := read(); err != nil {
				failed <- err
				return
			}
		}
	}()
	var err error
	select {
	case err = <-failed:
	case <-s.dropped:
		err = status.Error(codes.Unavailable, "dropped by the test")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ended = true
	r.note("%d   stream ended", s.number)
	r.signal()
	return err
}

// record takes a request into the log. The first marker is sent by itself: Envoy asks for nothing
// else before it has one.
func (r *Run) record(req Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := req.Type == marker && r.marked == 0
	r.log = append(r.log, &record{Request: req, untaken: slices.Clone(req.Subscribe)})
	if req.Type != marker {
		r.note("%s", req)
	}
	if first {
		_, _ = r.sendMarker() // an error ends the stream, and Envoy asks again
	}
	r.signal()
}

// note adds a line to the transcript. The caller holds mu.
func (r *Run) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	r.transcript = append(r.transcript, fmt.Sprintf("%8.3f %s", time.Since(r.started).Seconds(), line))
}

// signal wakes those who wait. The caller holds mu.
func (r *Run) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}
