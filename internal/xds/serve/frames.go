package serve

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// frames are the buffers that grpc-go reads DATA into. Those of its own pools are zeroed each time that they are used, 16 KiB for each
// frame, and then written over.
type frames struct {
	small, large sync.Pool // of *[]byte
}

const (
	smallFrame = 4 << 10
	largeFrame = 16 << 10 // the largest that grpc-go takes
)

var _ mem.BufferPool = (*frames)(nil)

// Get implements mem.BufferPool. What is in the buffer is what was in it.
func (f *frames) Get(length int) *[]byte {
	pool, size := &f.small, smallFrame
	switch {
	case length > largeFrame:
		b := make([]byte, length)
		return &b
	case length > smallFrame:
		pool, size = &f.large, largeFrame
	}
	b, ok := pool.Get().(*[]byte)
	if !ok {
		made := make([]byte, size)
		b = &made
	}
	*b = (*b)[:length]
	return b
}

// Put implements mem.BufferPool.
func (f *frames) Put(b *[]byte) {
	*b = (*b)[:cap(*b)]
	switch len(*b) {
	case smallFrame:
		f.small.Put(b)
	case largeFrame:
		f.large.Put(b)
	}
}
