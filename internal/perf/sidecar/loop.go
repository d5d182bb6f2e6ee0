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
	// readSize is how many bytes one read of a socket takes at most.
	readSize = 128 << 10
	// writeSize is how many bytes are collected before they are written.
	writeSize = 64 << 10
	// queueLimit is how many requests of a sidecar may wait for the window. With more, it stops
	// reading.
	queueLimit = 256
	// maxFreeIncoming is how many response buffers are kept for reuse.
	maxFreeIncoming = 64
	// headerLimit bounds a header field.
	headerLimit = 16 << 10
)

// loop is one goroutine with its sidecars and everything that they share. Other goroutines reach it
// by post and call.
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

	in           []byte // bytes read from a socket
	plain        []byte // decrypted bytes; nil without TLS
	out          []byte // bytes to write for the present sidecar
	freeIncoming []*incoming
	fields       []hpack.HeaderField
	readAt       time.Time
	stats        Stats
	lastReport   string // the last logged error

	mu        sync.Mutex
	commands  []func() // functions from post that have not run yet
	closing   bool
	published Stats // as of the last round

	ended chan struct{}
}

// slot is a sidecar's index in the poller. Its generation tells whether a readiness event is for an
// earlier sidecar.
type slot struct {
	sidecar    *Sidecar
	generation int32
}

func newLoop(f *Fleet) (*loop, error) {
	poll, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{
		tables: newTables(newInterner(f.options.Classify)), members: newMembers(),
		fleet: f, options: &f.options, targets: f.targets, poll: poll,
		sidecars: map[*Sidecar]struct{}{}, in: make([]byte, readSize), ended: make(chan struct{}),
	}
	if f.options.TLS != nil {
		l.plain = make([]byte, readSize)
	}
	l.newDecoder()
	return l, nil
}

// run serves sidecars until the fleet is closed.
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
			if s := l.slots[r.token.slot]; s.generation == r.token.generation && s.sidecar != nil {
				l.serve(s.sidecar, r)
			}
		}
		closing := l.runCommands()
		l.readAt = l.now() // timers read this as the time of their event
		for t, ok := l.timers.due(l.now()); ok; t, ok = l.timers.due(l.now()) {
			if t.sidecar.stream == t.stream && t.sidecar.phase != stopped {
				t.do(t.sidecar)
				l.flush(t.sidecar)
			}
		}
		if l.due() {
			l.sweep(l.inUse)
		}
		l.publishStats()
		if closing {
			for s := range l.sidecars {
				s.stop()
			}
			l.publishStats()
			return
		}
	}
}

func (l *loop) now() time.Time { return time.Now() }

// serve handles a readiness event of a socket.
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
	n, err := receive(s.socket, l.in[:s.readLimit()])
	l.readAt = l.now()
	if errors.Is(err, io.EOF) {
		return errClosed
	}
	if err != nil || n == 0 {
		return err
	}
	l.stats.BytesRead += uint64(n)
	s.delayNextRead(n)
	if s.tls != nil {
		return s.tls.received(l.in[:n])
	}
	return l.read(s, l.in[:n])
}

// read passes bytes to a sidecar, and takes its response buffer back if it is empty.
func (l *loop) read(s *Sidecar, p []byte) error {
	err := s.http.read(p, s)
	var refused refusedError
	var reset resetError
	if err != nil && !errors.As(err, &refused) && !errors.As(err, &reset) && !errors.Is(err, errGoAway) {
		l.stats.Malformed++
	}
	if s.in != nil && s.in.message.idle() {
		l.recycle(s.in)
		s.in = nil
	}
	return err
}

// flush writes what a sidecar has to send outside of serve.
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
	if len(s.unsent) > 0 && s.socket >= 0 {
		n, err := transmit(s.socket, s.unsent)
		l.stats.BytesWritten += uint64(n)
		if err != nil {
			return err
		}
		if s.unsent = s.unsent[n:]; len(s.unsent) == 0 {
			s.unsent = nil
		}
	}
	for s.socket >= 0 && len(s.unsent) == 0 {
		if s.phase == open {
			l.frameRequests(s)
		}
		frames := l.encrypted(s)
		if len(frames) == 0 {
			break
		}
		n, err := transmit(s.socket, frames)
		l.stats.BytesWritten += uint64(n)
		if err != nil {
			return err
		}
		s.unsent = append(s.unsent, frames[n:]...)
	}
	return l.writeUnsent(s)
}

// frameRequests puts requests into DATA frames.
func (l *loop) frameRequests(s *Sidecar) {
	for s.out != nil && len(l.out) < writeSize {
		room := s.http.sendable()
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

// encrypted returns the bytes to write, encrypted with TLS. They are valid until the next call.
func (l *loop) encrypted(s *Sidecar) []byte {
	frames := l.out
	l.out = l.out[:0]
	if s.tls != nil {
		return s.tls.encrypt(frames)
	}
	return frames
}

// writeUnsent writes what the socket did not accept before, and updates the events the socket is
// watched for.
func (l *loop) writeUnsent(s *Sidecar) error {
	if s.socket < 0 {
		return nil
	}
	if frames := l.encrypted(s); len(frames) > 0 {
		// Only answers to the server's frames grow this while the socket is full: the server does
		// not read.
		if len(s.unsent) > writeSize {
			return errors.New("the server sends, and does not read the answers")
		}
		s.unsent = append(s.unsent, frames...)
	}
	want := interest{read: s.wantsToRead(), write: len(s.unsent) > 0 || s.phase == connecting && s.tls == nil}
	if want == s.interest {
		return nil
	}
	s.interest = want
	return l.poll.change(s.socket, l.token(s), want)
}
