package serve

import (
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// A first response has thousands of parts, of some hundred bytes each, which all streams share. grpc-go wants an object for each, several
// lists of them, and a list for each frame of HTTP/2: three times the bytes of a sidecar's whole configuration, for all who connect at the
// same time. So neighbours are joined into pieces, but only when grpc-go is about to write them: a stream that waits for its client holds
// what is in one frame.

const (
	// pieceSize is how many bytes are joined at a time: a frame of HTTP/2 (16 KiB) touches five pieces at most.
	pieceSize = 4 << 10
	// joinBelow is the size of parts from which on one is a piece of its own, and is not copied.
	joinBelow = pieceSize / 2
	// manyUpserts is from how many resources on the list of parts is a lent one.
	manyUpserts = 64
)

// lent is what streams lend each other for as long as a request or a response is on its way.
type lent struct {
	bundles  sync.Pool // of *bundle
	pages    sync.Pool // of *page
	requests sync.Pool // of *request
}

type page [pieceSize]byte

func (l *lent) bundle() *bundle {
	if b, ok := l.bundles.Get().(*bundle); ok {
		return b
	}
	return &bundle{}
}

// giveBack takes a bundle that nobody reads any more.
func (l *lent) giveBack(b *bundle) {
	clear(b.parts)
	clear(b.pieces)
	clear(b.all)
	b.parts, b.pieces, b.all = b.parts[:0], b.pieces[:0], b.all[:0]
	l.bundles.Put(b)
}

func (l *lent) request() *request {
	if r, ok := l.requests.Get().(*request); ok {
		return r
	}
	return &request{}
}

func (l *lent) giveBackRequest(r *request) {
	*r = request{}
	l.requests.Put(r)
}

func (l *lent) page() *page {
	if p, ok := l.pages.Get().(*page); ok {
		return p
	}
	return new(page)
}

// bundle are the lists of one response of many parts.
type bundle struct {
	parts  [][]byte
	pieces []piece
	all    []mem.Buffer
}

// buffers are the parts as grpc-go takes them, and instead of the last of them the one given.
func (b *bundle) buffers(from *lent, last *lastBuffer) mem.BufferSlice {
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
			p.parts, p.from = rest[:n], from
		}
		rest = rest[n:]
	}
	b.all = slices.Grow(b.all, len(b.pieces)+1)
	for i := range b.pieces {
		b.pieces[i].holds.Store(1)
		b.all = append(b.all, &b.pieces[i])
	}
	b.all = append(b.all, last)
	return b.all
}

// piece is one or several parts. Its bytes are there from when they are first read, which one goroutine does at a time, until nobody
// holds it.
type piece struct {
	mem.SliceBuffer
	parts [][]byte // that the bytes are to be joined of; nil if they are a part themselves
	from  *lent
	page  *page
	size  int
	holds atomic.Int32
}

// Len implements mem.Buffer.
func (p *piece) Len() int { return p.size }

// ReadOnlyData implements mem.Buffer.
func (p *piece) ReadOnlyData() []byte {
	if p.SliceBuffer == nil {
		p.page = p.from.page()
		joined := p.page[:0]
		for _, part := range p.parts {
			joined = append(joined, part...)
		}
		p.SliceBuffer = joined
	}
	return p.SliceBuffer
}

// Slice implements mem.Buffer. It is a copy, since it may outlive the piece.
func (p *piece) Slice(start, end int) mem.Buffer {
	return mem.SliceBuffer(slices.Clone(p.ReadOnlyData()[start:end]))
}

// Ref implements mem.Buffer.
func (p *piece) Ref() { p.holds.Add(1) }

// Free implements mem.Buffer.
func (p *piece) Free() {
	if p.holds.Add(-1) == 0 && p.page != nil {
		p.from.pages.Put(p.page)
		p.page, p.SliceBuffer = nil, nil
	}
}
