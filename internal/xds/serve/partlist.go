package serve

import (
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// A first response has thousands of parts of some hundred bytes each, which all streams share.
// grpc-go wants an object for each part, several lists of them, and a list for each frame of
// HTTP/2. That is three times the bytes of a sidecar's whole configuration, for all clients that
// connect at the same time. So neighbouring parts are joined into pieces, but only when grpc-go is
// about to write them: a stream that waits for its client holds the pieces of one frame.

const (
	// pieceSize is how many bytes are joined at a time. A frame of HTTP/2 (16 KiB) touches at most
	// five pieces.
	pieceSize = 4 << 10
	// joinBelow is the size from which on a part is a piece of its own, and is not copied.
	joinBelow = pieceSize / 2
	// manyUpserts is the number of resources from which on the list of parts comes from pools.
	manyUpserts = 64
)

// pools are what streams reuse, each for as long as a request or a response is on its way.
type pools struct {
	partLists sync.Pool // of *partList
	pages     sync.Pool // of *page
	requests  sync.Pool // of *request
}

type page [pieceSize]byte

func (l *pools) partList() *partList {
	if b, ok := l.partLists.Get().(*partList); ok {
		return b
	}
	return &partList{}
}

// returnPartList takes back a list that nobody reads any more.
func (l *pools) returnPartList(b *partList) {
	clear(b.parts)
	clear(b.pieces)
	clear(b.list)
	b.parts, b.pieces, b.list = b.parts[:0], b.pieces[:0], b.list[:0]
	l.partLists.Put(b)
}

func (l *pools) request() *request {
	if r, ok := l.requests.Get().(*request); ok {
		return r
	}
	return &request{}
}

func (l *pools) returnRequest(r *request) {
	*r = request{}
	l.requests.Put(r)
}

func (l *pools) page() *page {
	if p, ok := l.pages.Get().(*page); ok {
		return p
	}
	return new(page)
}

// partList is the lists of one response of many parts.
type partList struct {
	parts  [][]byte
	pieces []piece
	list   []mem.Buffer
}

// buffers returns the parts as grpc-go takes them, with last in place of the last one.
func (b *partList) buffers(from *pools, last *lastBuffer) mem.BufferSlice {
	rest := b.parts[:len(b.parts)-1]
	for len(rest) > 0 {
		n, size := 1, len(rest[0])
		for n < len(rest) && size+len(rest[n]) <= pieceSize && len(rest[n]) < joinBelow {
			size += len(rest[n])
			n++
		}
		b.pieces = append(b.pieces, piece{size: size})
		if p := &b.pieces[len(b.pieces)-1]; n == 1 {
			p.SliceBuffer = rest[0]
		} else {
			p.parts, p.pools = rest[:n], from
		}
		rest = rest[n:]
	}
	b.list = slices.Grow(b.list, len(b.pieces)+1)
	for i := range b.pieces {
		b.pieces[i].holds.Store(1)
		b.list = append(b.list, &b.pieces[i])
	}
	b.list = append(b.list, last)
	return b.list
}

// piece is one part, or several joined parts. It joins them when it is first read, which one
// goroutine does at a time, and keeps the bytes until nobody holds it.
type piece struct {
	mem.SliceBuffer
	parts [][]byte // to be joined; nil for a single part
	pools *pools
	page  *page
	size  int
	holds atomic.Int32
}

// Len implements mem.Buffer.
func (p *piece) Len() int { return p.size }

// ReadOnlyData implements mem.Buffer.
func (p *piece) ReadOnlyData() []byte {
	if p.SliceBuffer == nil {
		p.page = p.pools.page()
		joined := p.page[:0]
		for _, part := range p.parts {
			joined = append(joined, part...)
		}
		p.SliceBuffer = joined
	}
	return p.SliceBuffer
}

// Slice implements mem.Buffer. It returns a copy, since it may outlive the piece.
func (p *piece) Slice(start, end int) mem.Buffer {
	return mem.SliceBuffer(slices.Clone(p.ReadOnlyData()[start:end]))
}

// Ref implements mem.Buffer.
func (p *piece) Ref() { p.holds.Add(1) }

// Free implements mem.Buffer.
func (p *piece) Free() {
	if p.holds.Add(-1) == 0 && p.page != nil {
		p.pools.pages.Put(p.page)
		p.page, p.SliceBuffer = nil, nil
	}
}
