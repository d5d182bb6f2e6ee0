package sidecar

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// tlsLink is the TLS of one connection. crypto/tls wants to block while it shakes hands, so that is done by a goroutine, which ends
// with it; afterwards the loop reads and writes without blocking.
type tlsLink struct {
	sidecar *Sidecar
	conn    *tls.Conn
	wire    *wire
	shaken  bool // the loop's
}

// handshake begins TLS.
func (l *loop) handshake(s *Sidecar) *tlsLink {
	w := &wire{blocks: true}
	w.ready.L = &w.mu
	config := l.options.TLS.Clone()
	if config.ServerName == "" {
		host, _, _ := net.SplitHostPort(l.targets[s.target].name)
		config.ServerName = host
	}
	config.NextProtos = []string{"h2"}
	link := &tlsLink{sidecar: s, conn: tls.Client(w, config), wire: w}
	w.wrote = func() { l.do(func() { link.present(func() error { return nil }) }) }
	l.fleet.handshakes.Add(1)
	go func() {
		defer l.fleet.handshakes.Done()
		err := link.conn.Handshake()
		l.do(func() { link.present(func() error { return link.shook(err) }) })
	}()
	return link
}

// present does something for the connection if the sidecar still has it, and writes what came of it.
func (t *tlsLink) present(do func() error) {
	s := t.sidecar
	if s.tls != t {
		return
	}
	err := do()
	if err == nil {
		err = s.loop.write(s)
	}
	if err != nil {
		s.loop.out = s.loop.out[:0]
		s.lost(err)
	}
}

func (t *tlsLink) shook(err error) error {
	if err != nil {
		return err
	}
	if p := t.conn.ConnectionState().NegotiatedProtocol; p != "h2" {
		return errors.New("the server does not offer HTTP/2 (ALPN h2)")
	}
	t.shaken = true
	t.wire.unblock()
	if err := t.sidecar.connected(); err != nil {
		return err
	}
	return t.received(nil)
}

// received takes what came over the socket.
func (t *tlsLink) received(p []byte) error {
	t.wire.deliver(p)
	if !t.shaken {
		return nil
	}
	plain := t.sidecar.loop.plain
	for {
		n, err := t.conn.Read(plain)
		if n > 0 {
			if err := t.sidecar.loop.read(t.sidecar, plain[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, io.EOF):
			return errClosed
		case err != nil:
			return err
		}
	}
}

// seal encrypts, and returns all that is to go over the socket.
func (t *tlsLink) seal(p []byte) []byte {
	if len(p) > 0 {
		_, _ = t.conn.Write(p) // into memory; a connection that is broken fails when it reads
	}
	return t.wire.take()
}

func (t *tlsLink) close() { t.wire.end() }

// wire is what crypto/tls believes to be a connection: two buffers in memory.
type wire struct {
	mu      sync.Mutex
	ready   sync.Cond
	in, out []byte
	blocks  bool // Read waits
	ended   bool
	wrote   func() // called after a Write while Read waits
}

func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.blocks && len(w.in) == 0 && !w.ended {
		w.ready.Wait()
	}
	switch {
	case w.ended:
		return 0, net.ErrClosed
	case len(w.in) == 0:
		return 0, os.ErrDeadlineExceeded // temporary: crypto/tls goes on where it was
	}
	n := copy(p, w.in)
	if w.in = w.in[n:]; len(w.in) == 0 {
		w.in = nil
	}
	return n, nil
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.out = append(w.out, p...)
	blocks := w.blocks
	w.mu.Unlock()
	if blocks {
		w.wrote()
	}
	return len(p), nil
}

func (w *wire) deliver(p []byte) {
	w.mu.Lock()
	w.in = append(w.in, p...)
	w.ready.Signal()
	w.mu.Unlock()
}

func (w *wire) unblock() {
	w.mu.Lock()
	w.blocks = false
	w.mu.Unlock()
}

func (w *wire) end() {
	w.mu.Lock()
	w.ended = true
	w.ready.Signal()
	w.mu.Unlock()
}

func (w *wire) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.out
	w.out = nil
	return out
}

func (*wire) Close() error                     { return nil }
func (*wire) LocalAddr() net.Addr              { return nil }
func (*wire) RemoteAddr() net.Addr             { return nil }
func (*wire) SetDeadline(time.Time) error      { return nil }
func (*wire) SetReadDeadline(time.Time) error  { return nil }
func (*wire) SetWriteDeadline(time.Time) error { return nil }
