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

// tlsLink is the TLS of one connection. The handshake of crypto/tls blocks, so a goroutine does it.
// Afterwards the loop reads and writes without blocking.
type tlsLink struct {
	sidecar       *Sidecar
	conn          *tls.Conn
	wire          *memoryConn
	handshakeDone bool // used by the loop only
}

// handshake starts TLS.
func (l *loop) handshake(s *Sidecar) *tlsLink {
	w := &memoryConn{blocks: true}
	w.ready.L = &w.mu
	config := l.options.TLS.Clone()
	if config.ServerName == "" {
		host, _, _ := net.SplitHostPort(l.targets[s.target].name)
		config.ServerName = host
	}
	config.NextProtos = []string{"h2"}
	link := &tlsLink{sidecar: s, conn: tls.Client(w, config), wire: w}
	w.wrote = func() { l.post(func() { link.run(func() error { return nil }) }) }
	l.fleet.handshakes.Add(1)
	go func() {
		defer l.fleet.handshakes.Done()
		err := link.conn.Handshake()
		l.post(func() { link.run(func() error { return link.handshakeEnded(err) }) })
	}()
	return link
}

// run runs a function for the connection, if the sidecar still has it, and writes the resulting
// bytes.
func (t *tlsLink) run(do func() error) {
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

func (t *tlsLink) handshakeEnded(err error) error {
	if err != nil {
		return err
	}
	if p := t.conn.ConnectionState().NegotiatedProtocol; p != "h2" {
		return errors.New("the server does not offer HTTP/2 (ALPN h2)")
	}
	t.handshakeDone = true
	t.wire.unblock()
	if err := t.sidecar.connected(); err != nil {
		return err
	}
	return t.received(nil)
}

// received handles bytes that came over the socket.
func (t *tlsLink) received(p []byte) error {
	t.wire.deliver(p)
	if !t.handshakeDone {
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

// encrypt encrypts bytes, and returns everything to be written to the socket.
func (t *tlsLink) encrypt(p []byte) []byte {
	if len(p) > 0 {
		_, _ = t.conn.Write(p) // writes to memory; reads report a broken connection
	}
	return t.wire.take()
}

func (t *tlsLink) close() { t.wire.end() }

// memoryConn is the net.Conn of crypto/tls: two buffers in memory.
type memoryConn struct {
	mu      sync.Mutex
	ready   sync.Cond
	in, out []byte
	blocks  bool // during the handshake, Read waits
	ended   bool
	wrote   func() // called after a Write during the handshake
}

func (w *memoryConn) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.blocks && len(w.in) == 0 && !w.ended {
		w.ready.Wait()
	}
	switch {
	case w.ended:
		return 0, net.ErrClosed
	case len(w.in) == 0:
		return 0, os.ErrDeadlineExceeded // temporary: crypto/tls resumes later
	}
	n := copy(p, w.in)
	if w.in = w.in[n:]; len(w.in) == 0 {
		w.in = nil
	}
	return n, nil
}

func (w *memoryConn) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.out = append(w.out, p...)
	blocks := w.blocks
	w.mu.Unlock()
	if blocks {
		w.wrote()
	}
	return len(p), nil
}

func (w *memoryConn) deliver(p []byte) {
	w.mu.Lock()
	w.in = append(w.in, p...)
	w.ready.Signal()
	w.mu.Unlock()
}

func (w *memoryConn) unblock() {
	w.mu.Lock()
	w.blocks = false
	w.mu.Unlock()
}

func (w *memoryConn) end() {
	w.mu.Lock()
	w.ended = true
	w.ready.Signal()
	w.mu.Unlock()
}

func (w *memoryConn) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.out
	w.out = nil
	return out
}

func (*memoryConn) Close() error                     { return nil }
func (*memoryConn) LocalAddr() net.Addr              { return nil }
func (*memoryConn) RemoteAddr() net.Addr             { return nil }
func (*memoryConn) SetDeadline(time.Time) error      { return nil }
func (*memoryConn) SetReadDeadline(time.Time) error  { return nil }
func (*memoryConn) SetWriteDeadline(time.Time) error { return nil }
