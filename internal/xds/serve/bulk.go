package serve

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// bulk are credentials whose connections put long responses together before they write them: what grpc-go writes in pieces of 4 KiB
// becomes pieces of many times that. Each write is a system call, on the way through the kernel to a client that is woken for it, and with
// TLS a record; a first answer of a megabyte was 250 of them, and they were half of what a newcomer cost. A larger buffer of
// grpc-go's own would be held by each stream of a push until its turn has come, however little it is that is pushed.
type bulk struct {
	credentials.TransportCredentials
	buffers *sync.Pool // of *[]byte
}

const (
	// bulkBytes is how much is written at a time.
	bulkBytes = 8 * writeBuffer
	// bulkDelay is how long a response may wait whose length is a multiple of grpc-go's buffer, one of 4,096: nothing tells its end.
	bulkDelay = 5 * time.Millisecond
)

// newBulk returns credentials that prove what others do.
func newBulk(c credentials.TransportCredentials) *bulk {
	return &bulk{c, &sync.Pool{New: func() any {
		b := make([]byte, 0, bulkBytes)
		return &b
	}}}
}

// ServerHandshake implements credentials.TransportCredentials.
func (b *bulk) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := b.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return conn, info, err
	}
	return &bulkConn{Conn: conn, buffers: b.buffers}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (b *bulk) Clone() credentials.TransportCredentials {
	return &bulk{b.TransportCredentials.Clone(), b.buffers}
}

// bulkConn is one connection. A write as long as grpc-go's buffer is one that more follows, all others end what was written before. It has
// a buffer only while more is to follow.
type bulkConn struct {
	net.Conn
	buffers *sync.Pool

	mu      sync.Mutex
	pending *[]byte // what was not written yet, nil if all was
	late    *time.Timer
	err     error // of a late write
}

// Write implements net.Conn.
func (c *bulkConn) Write(p []byte) (int, error) {
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
	if more && len(*c.pending) < bulkBytes {
		return len(p), nil
	}
	if err := c.end(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// begin takes a buffer. The caller holds mu.
func (c *bulkConn) begin() {
	c.pending, _ = c.buffers.Get().(*[]byte)
	c.late = time.AfterFunc(bulkDelay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pending != nil && c.err == nil {
			c.err = c.end()
		}
	})
}

// end writes what is pending. The caller holds mu.
func (c *bulkConn) end() error {
	c.late.Stop()
	_, err := c.Conn.Write(*c.pending)
	*c.pending = (*c.pending)[:0]
	c.buffers.Put(c.pending)
	c.pending, c.late = nil, nil
	return err
}
