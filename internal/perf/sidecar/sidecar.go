package sidecar

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// Sidecar is one sidecar of a fleet.
type Sidecar struct {
	loop      *loop
	identity  *Identity
	faults    *Faults // nil: none
	number    uint64
	synced    atomic.Bool
	isStopped atomic.Bool

	// Only the loop uses the following fields.

	socket      int // -1: none
	slot        int
	target      int
	phase       phase
	interest    interest
	paused      bool   // delayNextRead has paused reads
	stream      uint32 // how many streams it has opened; a timer is for one
	attempts    int    // since the last response
	randomDraws uint64 // how many random numbers it has used

	http   framing
	tls    *tlsLink  // nil: plaintext
	in     *incoming // nil: nothing of a response has come
	out    *outbox   // nil: no request waits
	unsent []byte    // frames that the socket did not take

	// Of the stream: the types it has subscribed to, those without an answer, those whose names
	// have all been answered, those that have timed out, and those with a timer. everRequested are
	// the types subscribed to on any stream.
	requested, unanswered, settled, timedOut, timerSet, everRequested typeSet
	introduced, answered                                              bool
	reconnected                                                       bool // an earlier stream was answered
	responses                                                         uint32
	missing                                                           [2]int32 // see missingOf
	asked                                                             collections
	status                                                            streamStatus
	tables                                                            [NumTypes]*table
	sotw                                                              *[NumTypes]sotwState // nil: delta
}

type phase uint8

const (
	waiting    phase = iota // waits for the next attempt
	connecting              // establishes the socket or TLS
	open
	stopped
)

// streamStatus is the status with which the server ended the stream.
type streamStatus struct {
	headed  bool
	code    string // grpc-status
	message string
}

// refusedError is the error of a stream that ended with a status.
type refusedError struct{ streamStatus }

func (e refusedError) Error() string {
	var code codes.Code
	if code.UnmarshalJSON([]byte(e.code)) != nil {
		return fmt.Sprintf("the stream ended with grpc-status %q: %s", e.code, e.message)
	}
	return fmt.Sprintf("the stream ended: %s: %s", code, e.message)
}

// Identity returns what it was started with.
func (s *Sidecar) Identity() Identity { return *s.identity }

// IsSynced reports whether it has an answer to everything it asked for.
func (s *Sidecar) IsSynced() bool { return s.synced.Load() }

// Stop closes its connection and ends it. It does not wait. A second call does nothing.
func (s *Sidecar) Stop() {
	if !s.isStopped.Swap(true) {
		s.loop.fleet.started.Add(-1)
		s.loop.post(func() { s.stop() })
	}
}

// Reconnect closes its connection as if it had broken, so that it reconnects.
func (s *Sidecar) Reconnect() {
	s.loop.post(func() {
		if s.phase == open {
			s.lost(errReconnect)
		}
	})
}

var errReconnect = errors.New("told to connect anew")

// Resources returns the names and versions of the resources of a type that it holds, or nil once
// the fleet is closed. Members of collections are not held. The callbacks of Options must not call
// it.
func (s *Sidecar) Resources(t Type) map[string]string {
	var all map[string]string
	s.loop.call(func() {
		all = make(map[string]string, s.tables[t].size())
		var at position
		for e := s.tables[t].next(&at); e != nil; e = s.tables[t].next(&at) {
			if !e.absent {
				all[e.name] = e.version
			}
		}
	})
	return all
}

// Holds returns how many resources of a type it holds, under the conditions of Resources.
func (s *Sidecar) Holds(t Type) (n int) {
	s.loop.call(func() { n = s.tables[t].size() })
	return n
}

// connect begins an attempt to connect.
func (s *Sidecar) connect() {
	l := s.loop
	l.stats.Attempts++
	s.target = (int(s.number) + s.attempts) % len(l.targets)
	socket, err := dial(l.targets[s.target].address, l.source(s.number))
	if err == nil {
		s.socket = socket
		s.slot = l.takeSlot(s)
		s.interest = interest{write: true}
		err = l.poll.add(socket, l.token(s), s.interest)
	}
	if err != nil {
		l.stats.Failures++
		s.lost(err)
		return
	}
	s.phase = connecting
}

// connected opens the stream.
func (s *Sidecar) connected() error {
	l := s.loop
	if l.options.TLS != nil && s.tls == nil {
		s.tls = l.handshake(s)
		return nil
	}
	first, err := l.preamble(s)
	if err != nil {
		return err
	}
	s.phase = open
	s.stream++
	s.answered, s.status = false, streamStatus{}
	s.http = newFraming(l.options.Window)
	s.send(first...)
	s.begin()
	s.flood()
	return nil
}

// firstResponse records that the server answers.
func (s *Sidecar) firstResponse() {
	if s.answered {
		return
	}
	s.answered, s.attempts = true, 0
	s.loop.stats.Connected++
	if s.reconnected {
		s.loop.stats.Reconnects++
	}
	s.reconnected = true
}

// lost closes the connection, and schedules the next attempt.
func (s *Sidecar) lost(why error) {
	l := s.loop
	var refused refusedError
	switch {
	case errors.As(why, &refused) && !s.answered:
		l.stats.Refused++
		l.report(slog.LevelWarn, why)
	case s.phase == connecting:
		l.stats.Failures++
		l.report(slog.LevelWarn, why)
	default:
		l.report(slog.LevelInfo, why)
	}
	s.close()
	s.phase = waiting
	wait := l.options.Backoff.after(s.attempts, s.random())
	s.attempts++
	s.after(wait, func(s *Sidecar) { s.connect() })
}

// close releases everything that belongs to a connection.
func (s *Sidecar) close() {
	l := s.loop
	s.setSynced(false)
	if s.answered {
		l.stats.Connected--
		s.answered = false
	}
	if s.socket >= 0 {
		closeSocket(s.socket)
		l.vacate(s)
		s.socket = -1
	}
	if s.tls != nil {
		s.tls.close()
		s.tls = nil
	}
	if s.in != nil {
		l.recycle(s.in)
		s.in = nil
	}
	s.out, s.unsent, s.http, s.paused = nil, nil, framing{}, false
	s.stream++ // cancels the timers of the connection
}

func (s *Sidecar) stop() {
	if s.phase == stopped {
		return
	}
	s.close()
	s.phase = stopped
	delete(s.loop.sidecars, s)
}

func (s *Sidecar) setSynced(is bool) {
	if s.synced.Load() == is {
		return
	}
	s.synced.Store(is)
	if !is {
		s.loop.stats.Synced--
		return
	}
	s.loop.stats.Synced++
	if s.loop.options.Synced != nil {
		s.loop.options.Synced(s, s.loop.readAt)
	}
}

// after schedules a function, which does not run if the connection is lost or the sidecar stopped
// before.
func (s *Sidecar) after(d time.Duration, do func(*Sidecar)) {
	s.loop.timers.add(timer{at: s.loop.now().Add(d), sidecar: s, stream: s.stream, do: do})
}

// expect sets the timeout for the resources of a type.
func (s *Sidecar) expect(t Type) {
	if s.timerSet.has(t) {
		return
	}
	s.timerSet.add(t)
	s.after(s.loop.options.FetchTimeout, func(s *Sidecar) {
		s.timerSet.remove(t)
		if !s.isReady(t) {
			s.loop.stats.Late++
			s.timedOut.add(t)
			s.openNext()
			s.updateSynced()
		}
	})
}

// random returns a number of [0, 1), determined by the seed, the sidecar and how many it has used.
func (s *Sidecar) random() float64 {
	s.randomDraws++
	x := s.loop.options.Seed + s.number*0x9e3779b97f4a7c15 + s.randomDraws*0xd1342543de82ef95
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// floodEvery is the interval of needless requests.
const floodEvery = 10 * time.Millisecond

// flood sends needless requests, unless others wait for the window.
func (s *Sidecar) flood() {
	if s.faults == nil || s.faults.FloodRate == 0 {
		return
	}
	s.after(floodEvery, func(s *Sidecar) {
		if s.phase != open {
			return
		}
		s.randomDraws++
		n := s.faults.FloodRate / int(time.Second/floodEvery)
		if s.random() < float64(s.faults.FloodRate%int(time.Second/floodEvery))/float64(time.Second/floodEvery) {
			n++
		}
		for range n {
			if s.out == nil && s.answered {
				s.sendNeedless()
				s.loop.flush(s)
			}
		}
		s.flood()
	})
}

// sendNeedless subscribes again to what it has subscribed to.
func (s *Sidecar) sendNeedless() {
	t := Cluster
	if s.requested.has(Endpoint) {
		t = Endpoint
	}
	r := s.request(t)
	if s.sotw != nil {
		s.setSotWFields(&r, t)
	} else if t == Endpoint {
		var at position
		for e := s.tables[Cluster].next(&at); e != nil && r.names == nil; e = s.tables[Cluster].next(&at) {
			r.names = e.refers
		}
	}
	s.queue(r)
}

// The rest implements receiver.

func (s *Sidecar) send(frame ...byte) { s.loop.out = append(s.loop.out, frame...) }

func (s *Sidecar) data(p []byte) error {
	if s.in == nil {
		s.in = s.loop.incoming()
	}
	return s.in.message.read(p, s)
}

func (s *Sidecar) fields(block []byte) error {
	fields, err := s.loop.header(block)
	if err != nil {
		return err
	}
	for _, f := range fields {
		switch f.Name {
		case ":status":
			if s.status.headed = true; f.Value != "200" {
				return fmt.Errorf("the server answers with HTTP status %s", f.Value)
			}
		case "grpc-status":
			s.status.code = f.Value
		case "grpc-message":
			s.status.message = f.Value
		}
	}
	return nil
}

func (s *Sidecar) ended() error {
	if s.status.code == "" {
		return errors.New("the server ended the stream without a status")
	}
	return refusedError{s.status}
}

// requestFields returns the headers of a stream (gRPC over HTTP/2, "Requests").
func requestFields(scheme, authority string, p Protocol, token string) []hpack.HeaderField {
	path := "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	if p == StateOfTheWorld {
		path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: scheme}, {Name: ":path", Value: path}, {
			Name: ":authority", Value: authority,
		},
		{Name: "te", Value: "trailers"}, {
			Name: "content-type", Value: "application/grpc",
		}, {Name: "user-agent", Value: "lateen-perf"},
	}
	if token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + token, Sensitive: true})
	}
	return fields
}
