package serve

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// framePool are the buffers into which grpc-go reads DATA. grpc-go's own pools zero a buffer of 16
// KiB for each frame, just to overwrite it.
type framePool struct {
	small, large sync.Pool // of *[]byte
}

const (
	smallFrame = 4 << 10
	largeFrame = 16 << 10 // the largest that grpc-go takes
)

var _ mem.BufferPool = (*framePool)(nil)

// Get implements mem.BufferPool. The buffer keeps its old content.
func (f *framePool) Get(length int) *[]byte {
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
func (f *framePool) Put(b *[]byte) {
	*b = (*b)[:cap(*b)]
	switch len(*b) {
	case smallFrame:
		f.small.Put(b)
	case largeFrame:
		f.large.Put(b)
	}
}
