package admission

import (
	"context"
	"sync"
	"sync/atomic"
)

// SendQueueLimit is the number of bytes that may be unsent for one client when the next response is
// handed to grpc-go. So at most these and one response wait in this process. It is below the 64 KiB
// from which on grpc-go blocks a send, so no send blocks there.
const SendQueueLimit = 16 << 10

// SendQueue counts the bytes of one stream's responses that were handed to grpc-go and not yet to
// the kernel. While it is full the next send waits, and the client gets the newest state
// afterwards.
type SendQueue struct {
	Total *atomic.Int64 // the bytes of all streams

	mu     sync.Mutex
	bytes  int
	room   chan struct{} // closed when the queue is no longer full; nil while nobody waits
	closed bool
}

// IsFull reports whether a send would wait.
func (q *SendQueue) IsFull() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > SendQueueLimit
}

// Wait waits until the queue is not full. It returns the error of ctx if that ends before.
func (q *SendQueue) Wait(ctx context.Context) error {
	for {
		q.mu.Lock()
		if q.bytes <= SendQueueLimit {
			q.mu.Unlock()
			return nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Add counts n bytes that were handed over, or with a negative n bytes that were written.
func (q *SendQueue) Add(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.Total.Add(int64(n))
	q.bytes += n
	if n < 0 && q.room != nil && q.bytes <= SendQueueLimit {
		close(q.room)
		q.room = nil
	}
}

// Close drops what is left when the stream has ended: grpc-go discards it with the connection, and
// does not report it.
func (q *SendQueue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Total.Add(-int64(q.bytes))
	q.closed, q.bytes = true, 0
}
