package sidecar

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

const (
	// readSize is how much is read of a socket at a time.
	readSize = 128 << 10
	// writeSize is how much is put together before it is written.
	writeSize = 64 << 10
	// queueLimit is how many requests of a sidecar may wait for the window before it reads no more.
	queueLimit = 256
	// spare is how many buffers of responses are kept for the next.
	spare = 64
	// headerLimit bounds a field of a header.
	headerLimit = 16 << 10
)

// loop is one goroutine and the sidecars that it owns. All that its sidecars share is its own; others reach it by do and ask.
type loop struct {
	*tables
	fleet   *Fleet
	options *Options
	targets []target
	poll    *poller
	decoder *hpack.Decoder
	timers  timers

	sidecars map[*Sidecar]struct{}
	members  members
	slots    []slot
	free     []int

	in     []byte // what was read
	plain  []byte // of that, what was inside of TLS; nil without it
	out    []byte // what is to be written for the sidecar whose turn it is
	spares []*incoming
	fields []hpack.HeaderField
	readAt time.Time
	stats  Stats
	said   string // the last report

	mu       sync.Mutex
	commands []func() // those that wait: one for each call of a method from outside
	closing  bool
	shown    Stats // of the last round

	ended chan struct{}
}

// slot is a place for a socket in the poller. A readiness that is older than the sidecar in it is told by its turn.
type slot struct {
	sidecar *Sidecar
	turn    int32
}

func newLoop(f *Fleet) (*loop, error) {
	poll, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{
		tables: newTables(newInterner(f.options.Classify)), fleet: f, options: &f.options, targets: f.targets, poll: poll,
		sidecars: map[*Sidecar]struct{}{}, members: members{}, in: make([]byte, readSize), ended: make(chan struct{}),
	}
	if f.options.TLS != nil {
		l.plain = make([]byte, readSize)
	}
	l.newDecoder()
	return l, nil
}

// run works until the fleet is closed.
func (l *loop) run() {
	defer close(l.ended)
	defer l.poll.close()
	var ready []readiness
	for {
		var err error
		if ready, err = l.poll.wait(l.timers.wait(l.now()), ready[:0]); err != nil {
			l.report(slog.LevelError, err)
			return
		}
		for _, r := range ready {
			if s := l.slots[r.token.slot]; s.turn == r.token.turn && s.sidecar != nil {
				l.serve(s.sidecar, r)
			}
		}
		closing := l.obey()
		l.readAt = l.now() // what a timer brings about comes now
		for t, ok := l.timers.due(l.now()); ok; t, ok = l.timers.due(l.now()) {
			if t.sidecar.stream == t.stream && t.sidecar.phase != stopped {
				t.do(t.sidecar)
				l.flush(t.sidecar)
			}
		}
		if l.due() {
			l.sweep(l.inUse)
		}
		l.show()
		if closing {
			for s := range l.sidecars {
				s.stop()
			}
			l.show()
			return
		}
	}
}

func (l *loop) now() time.Time { return time.Now() }

// serve does what a socket is ready for.
func (l *loop) serve(s *Sidecar, r readiness) {
	err := l.exchange(s, r)
	if err == nil {
		err = l.write(s)
	}
	if err != nil {
		l.out = l.out[:0]
		s.lost(err)
	}
}

func (l *loop) exchange(s *Sidecar, r readiness) error {
	if s.phase == connecting && s.tls == nil {
		if err := dialed(s.socket); err != nil {
			return err
		}
		return s.connected()
	}
	if r.broken && !r.read {
		if err := dialed(s.socket); err != nil {
			return err
		}
		return errClosed
	}
	if !r.read || s.paused {
		return nil
	}
	n, err := receive(s.socket, l.in[:s.appetite()])
	l.readAt = l.now()
	if errors.Is(err, io.EOF) {
		return errClosed
	}
	if err != nil || n == 0 {
		return err
	}
	l.stats.BytesRead += uint64(n)
	s.restrain(n)
	if s.tls != nil {
		return s.tls.received(l.in[:n])
	}
	return l.read(s, l.in[:n])
}

// read lets a sidecar take what came, and takes back its buffer if it holds nothing of a response.
func (l *loop) read(s *Sidecar, p []byte) error {
	err := s.http.read(p, s)
	var refused refusedError
	var reset resetError
	if err != nil && !errors.As(err, &refused) && !errors.As(err, &reset) && !errors.Is(err, errAway) {
		l.stats.Malformed++
	}
	if s.in != nil && s.in.message.idle() {
		l.recycle(s.in)
		s.in = nil
	}
	return err
}

// flush writes what a sidecar wants to send outside of its turn.
func (l *loop) flush(s *Sidecar) {
	if s.phase != open {
		return
	}
	if err := l.write(s); err != nil {
		l.out = l.out[:0]
		s.lost(err)
	}
}

// write writes frames, and requests as far as the windows allow.
func (l *loop) write(s *Sidecar) error {
	if len(s.tail) > 0 && s.socket >= 0 {
		n, err := transmit(s.socket, s.tail)
		l.stats.BytesWritten += uint64(n)
		if err != nil {
			return err
		}
		if s.tail = s.tail[n:]; len(s.tail) == 0 {
			s.tail = nil
		}
	}
	for s.socket >= 0 && len(s.tail) == 0 {
		if s.phase == open {
			l.frames(s)
		}
		frames := l.sealed(s)
		if len(frames) == 0 {
			break
		}
		n, err := transmit(s.socket, frames)
		l.stats.BytesWritten += uint64(n)
		if err != nil {
			return err
		}
		s.tail = append(s.tail, frames[n:]...)
	}
	return l.attend(s)
}

// frames puts requests into DATA frames.
func (l *loop) frames(s *Sidecar) {
	for s.out != nil && len(l.out) < writeSize {
		room := s.http.room()
		if room == 0 {
			return
		}
		start := len(l.out)
		l.out = appendFrame(l.out, 0, frameData, 0, firstStream)
		l.out = s.out.fill(l.out, room)
		size := len(l.out) - start - frameHeader
		if size == 0 {
			l.out = l.out[:start]
		} else {
			l.out[start], l.out[start+1], l.out[start+2] = byte(size>>16), byte(size>>8), byte(size)
			s.http.sent(size)
		}
		if s.out.empty() {
			s.out = nil
		}
	}
}

// sealed is what is to be written, as it goes over the wire. It is valid until the next call.
func (l *loop) sealed(s *Sidecar) []byte {
	frames := l.out
	l.out = l.out[:0]
	if s.tls != nil {
		return s.tls.seal(frames)
	}
	return frames
}

// attend writes what the socket did not take before, and watches the socket for what is of interest now.
func (l *loop) attend(s *Sidecar) error {
	if s.socket < 0 {
		return nil
	}
	if frames := l.sealed(s); len(frames) > 0 {
		// Answers to the server's frames while the socket takes nothing: it is the server that does not read.
		if len(s.tail) > writeSize {
			return errors.New("the server sends, and does not read the answers")
		}
		s.tail = append(s.tail, frames...)
	}
	want := interest{read: s.hears(), write: len(s.tail) > 0 || s.phase == connecting && s.tls == nil}
	if want == s.interest {
		return nil
	}
	s.interest = want
	return l.poll.change(s.socket, l.token(s), want)
}
