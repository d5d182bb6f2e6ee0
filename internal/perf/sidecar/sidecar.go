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

// Sidecar is one of a fleet.
type Sidecar struct {
	loop     *loop
	identity *Identity
	manners  *Manners // nil: none
	number   uint64
	synced   atomic.Bool
	gone     atomic.Bool

	// What follows is the loop's.

	socket   int // -1: none
	slot     int
	target   int
	phase    phase
	interest interest
	paused   bool   // reads nothing for now
	stream   uint32 // of all that it opened; timers are for one
	attempts int    // since the last response
	drawn    uint64 // how often something was drawn

	http framing
	tls  *tlsLink  // nil: plaintext
	in   *incoming // nil: nothing of a response has come
	out  *outbox   // nil: no request waits
	tail []byte    // frames that the socket did not take

	// Of the stream: what was asked for, of that what has not been answered, whose names have all been answered or were waited for in
	// vain, and for which a timer is set. ever is what was asked for on any stream.
	asked, waits, settled, late, timed, ever typeSet
	introduced, answered                     bool
	returning                                bool // an earlier stream was answered
	responses                                uint32
	status                                   streamStatus
	tables                                   [NumTypes]*table
	world                                    *[NumTypes]worldState // nil: delta
}

type phase uint8

const (
	waiting    phase = iota // for the next attempt
	connecting              // the socket or TLS
	open
	stopped
)

// streamStatus is how the server ended the stream.
type streamStatus struct {
	headed  bool
	code    string // grpc-status
	message string
}

// refusedError is a stream that ended with a status.
type refusedError struct{ streamStatus }

func (e refusedError) Error() string {
	var code codes.Code
	if code.UnmarshalJSON([]byte(e.code)) != nil {
		return fmt.Sprintf("the stream ended with grpc-status %q: %s", e.code, e.message)
	}
	return fmt.Sprintf("the stream ended: %s: %s", code, e.message)
}

// Identity is what it was started with.
func (s *Sidecar) Identity() Identity { return *s.identity }

// IsSynced tells whether it has an answer to all that it asked for.
func (s *Sidecar) IsSynced() bool { return s.synced.Load() }

// Stop closes its connection and ends it. It returns at once; a second call does nothing.
func (s *Sidecar) Stop() {
	if !s.gone.Swap(true) {
		s.loop.fleet.started.Add(-1)
		s.loop.do(func() { s.stop() })
	}
}

// Reconnect closes its connection as if it had broken, so that it connects anew.
func (s *Sidecar) Reconnect() {
	s.loop.do(func() {
		if s.phase == open {
			s.lost(errReconnect)
		}
	})
}

var errReconnect = errors.New("told to connect anew")

// Resources are the names and versions of what it holds of a type. It must not be called by the functions of Options, and is nil
// once the fleet is closed. Collections are not held.
func (s *Sidecar) Resources(t Type) map[string]string {
	var all map[string]string
	s.loop.ask(func() {
		all = make(map[string]string, s.tables[t].size())
		var at place
		for e := s.tables[t].next(&at); e != nil; e = s.tables[t].next(&at) {
			if !e.absent {
				all[e.name] = e.version
			}
		}
	})
	return all
}

// Holds is how many resources of a type it has; what is said of Resources holds here too.
func (s *Sidecar) Holds(t Type) (n int) {
	s.loop.ask(func() { n = s.tables[t].size() })
	return n
}

// connect begins an attempt.
func (s *Sidecar) connect() {
	l := s.loop
	l.stats.Attempts++
	s.target = (int(s.number) + s.attempts) % len(l.targets)
	socket, err := dial(l.targets[s.target].address, l.source(s.number))
	if err == nil {
		s.socket = socket
		s.slot = l.occupy(s)
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
	first, err := l.opening(s)
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

// firstResponse notes that the server answers.
func (s *Sidecar) firstResponse() {
	if s.answered {
		return
	}
	s.answered, s.attempts = true, 0
	s.loop.stats.Connected++
	if s.returning {
		s.loop.stats.Reconnects++
	}
	s.returning = true
}

// lost closes the connection, and sets the time of the next attempt.
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
	wait := l.options.Backoff.after(s.attempts, s.draw())
	s.attempts++
	s.after(wait, func(s *Sidecar) { s.connect() })
}

// close gives all up that belongs to a connection.
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
	s.out, s.tail, s.http, s.paused = nil, nil, framing{}, false
	s.stream++ // timers of the connection are void
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

// after does something later, unless the connection is lost or the sidecar stopped before.
func (s *Sidecar) after(d time.Duration, do func(*Sidecar)) {
	s.loop.timers.add(timer{at: s.loop.now().Add(d), sidecar: s, stream: s.stream, do: do})
}

// expect sets the time after which it goes on without the resources of a type that it asked for.
func (s *Sidecar) expect(t Type) {
	if s.timed.has(t) || t == Collection {
		return
	}
	s.timed.add(t)
	s.after(s.loop.options.FetchTimeout, func(s *Sidecar) {
		s.timed.remove(t)
		if !s.has(t) {
			s.loop.stats.Late++
			s.late.add(t)
			s.proceed()
			s.updateSynced()
		}
	})
}

// draw is a number from [0, 1) that the seed, the sidecar and how many it drew decide.
func (s *Sidecar) draw() float64 {
	s.drawn++
	x := s.loop.options.Seed + s.number*0x9e3779b97f4a7c15 + s.drawn*0xd1342543de82ef95
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// floodEvery is how often needless requests are sent.
const floodEvery = 10 * time.Millisecond

// flood sends needless requests, but none while others wait for the window.
func (s *Sidecar) flood() {
	if s.manners == nil || s.manners.Flood == 0 {
		return
	}
	s.after(floodEvery, func(s *Sidecar) {
		if s.phase != open {
			return
		}
		s.drawn++
		n := s.manners.Flood / int(time.Second/floodEvery)
		if s.draw() < float64(s.manners.Flood%int(time.Second/floodEvery))/float64(time.Second/floodEvery) {
			n++
		}
		for range n {
			if s.out == nil && s.answered {
				s.needless()
				s.loop.flush(s)
			}
		}
		s.flood()
	})
}

// needless subscribes to what is subscribed.
func (s *Sidecar) needless() {
	t := Cluster
	if s.asked.has(Endpoint) {
		t = Endpoint
	}
	r := s.request(t)
	if s.world != nil {
		s.worldFields(&r, t)
	} else if t == Endpoint {
		var at place
		for e := s.tables[Cluster].next(&at); e != nil && r.names == nil; e = s.tables[Cluster].next(&at) {
			r.names = e.refers
		}
	}
	s.queue(r)
}

// The rest is what framing asks of its receiver.

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

// requestFields are the header of a stream (gRPC over HTTP/2, "Requests").
func requestFields(scheme, authority string, p Protocol, token string) []hpack.HeaderField {
	path := "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	if p == StateOfTheWorld {
		path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: scheme}, {Name: ":path", Value: path}, {Name: ":authority", Value: authority},
		{Name: "te", Value: "trailers"}, {Name: "content-type", Value: "application/grpc"}, {Name: "user-agent", Value: "lateen-perf"},
	}
	if token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + token, Sensitive: true})
	}
	return fields
}
