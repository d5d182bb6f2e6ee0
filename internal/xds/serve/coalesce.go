package serve

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// coalescing wraps credentials so that connections write long responses in large pieces: what
// grpc-go writes 4 KiB at a time goes out up to 32 KiB at a time.
//
// Each write is a system call that goes through the kernel to the client and wakes it, and with TLS
// a record. A first response of a megabyte was 250 of them, which were half of what a new stream
// cost. A larger buffer of grpc-go's own would be held by each stream of a push until it is its
// turn to write, however small the push is.
type coalescing struct {
	credentials.TransportCredentials
	buffers *sync.Pool // of *[]byte
	// admit counts a connection, and returns what to call at its end.
	admit func(net.Conn) (leave func(), err error)
}

const (
	// coalesceBytes is how much is written at a time.
	coalesceBytes = 8 * writeBuffer
	// coalesceDelay is how long bytes wait at most. It counts for a response whose length is a
	// multiple of grpc-go's buffer, which is one of 4,096: no shorter write marks its end.
	coalesceDelay = 5 * time.Millisecond
)

// newCoalescing returns credentials that prove what c proves.
func newCoalescing(
	c credentials.TransportCredentials, admit func(net.Conn) (leave func(), err error),
) *coalescing {
	return &coalescing{c, &sync.Pool{New: func() any {
		b := make([]byte, 0, coalesceBytes)
		return &b
	}}, admit}
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *coalescing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	leave, err := c.admit(raw)
	if err != nil {
		return nil, nil, err
	}
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		leave()
		return conn, info, err
	}
	return &coalescingConn{Conn: conn, buffers: c.buffers, leave: sync.OnceFunc(leave)}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c *coalescing) Clone() credentials.TransportCredentials {
	return &coalescing{c.TransportCredentials.Clone(), c.buffers, c.admit}
}

// coalescingConn is one connection. A write as long as grpc-go's buffer is followed by more; a
// shorter one ends what was written before. The connection has a buffer only while more is to
// follow.
type coalescingConn struct {
	net.Conn
	buffers *sync.Pool
	leave   func()

	mu      sync.Mutex
	pending *[]byte // what is not written yet, or nil
	timer   *time.Timer
	err     error // of a write by the timer
}

// Write implements net.Conn.
func (c *coalescingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	more := len(p) == writeBuffer
	if c.pending == nil {
		if !more {
			return c.Conn.Write(p)
		}
		c.begin()
	}
	*c.pending = append(*c.pending, p...)
	if more && len(*c.pending) < coalesceBytes {
		return len(p), nil
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements net.Conn.
func (c *coalescingConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// begin takes a buffer, and sets the timer that flushes it. The caller holds mu.
func (c *coalescingConn) begin() {
	c.pending, _ = c.buffers.Get().(*[]byte)
	c.timer = time.AfterFunc(coalesceDelay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pending != nil && c.err == nil {
			c.err = c.flush()
		}
	})
}

// flush writes what is pending, and gives the buffer back. The caller holds mu.
func (c *coalescingConn) flush() error {
	c.timer.Stop()
	_, err := c.Conn.Write(*c.pending)
	*c.pending = (*c.pending)[:0]
	c.buffers.Put(c.pending)
	c.pending, c.timer = nil, nil
	return err
}
