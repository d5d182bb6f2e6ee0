package history

import (
	"bytes"
	"compress/flate"
	"encoding/gob"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

const (
	// inBlock is how many generations are compressed together at most.
	inBlock = 64
	// inTail is how many generations are not compressed yet if there is room: those that proxies
	// have yet to answer are among them.
	inTail = 256
)

// Store keeps generations, the oldest of which go when there is no more room.
type Store struct {
	budget int // bytes, of generations

	// dropped counts the generations that had no place, and known those before the newest that is
	// remembered: where they differ, something between that and now is not.
	dropped, known atomic.Uint64

	mu       sync.Mutex
	sealed   []block // the oldest first
	size     int     // of what is sealed
	tail     []*entry
	tailSize int
	returns  returns
}

// block is compressed generations.
type block struct {
	first time.Time // when the oldest of them was published
	index index
	data  []byte
}

// blockOverhead is the size in bytes of a block beside its data.
const blockOverhead = indexSize + 200

// NewStore returns a Store for so many bytes, a quarter of which is for objects as they are now.
// One for none remembers nothing.
func NewStore(budget int) *Store { return &Store{budget: budget - budget/objectsShare} }

// objectsShare is the part of the memory that is for objects.
const objectsShare = 4

func (s *Store) forObjects() int { return s.budget / (objectsShare - 1) }

func (s *Store) isOff() bool { return s.budget <= 0 }

// add adds the newest generation. It may still be settled, and else is not changed any more.
func (s *Store) add(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail, s.tailSize = append(s.tail, e), s.tailSize+e.size()
	for len(s.tail) >= inTail+inBlock || s.tailSize > s.budget/4 && len(s.tail) > 1 {
		s.seal(min(inBlock, (len(s.tail)+1)/2))
	}
	for s.size+s.tailSize > s.budget && len(s.sealed) > 0 {
		s.size -= len(s.sealed[0].data) + blockOverhead
		s.sealed = slices.Delete(s.sealed, 0, 1)
	}
}

// seal compresses the oldest generations of the tail.
func (s *Store) seal(n int) {
	b := sealed(s.tail[:n])
	for _, e := range s.tail[:n] {
		s.tailSize -= e.size()
	}
	s.tail = slices.Clone(s.tail[n:])
	s.sealed, s.size = append(s.sealed, b), s.size+len(b.data)+blockOverhead
}

// Settle notes what became of a generation of this process. One that is compressed already stays as
// it is.
func (s *Store) Settle(generation uint64, d page.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.tail) - 1; i >= 0; i-- {
		if s.tail[i].Generation.Generation == generation {
			settled := *s.tail[i] // another reads the one that is there
			settled.Delivery = &d
			s.tail[i] = &settled
			return
		}
		if s.tail[i].Start { // what is before is of another process
			return
		}
	}
}

// Size returns how many bytes generations take.
func (s *Store) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size + s.tailSize
}

// each calls f with generations, the newest first, until it returns false. It leaves out blocks
// that surely have nothing of what is asked for.
func (s *Store) each(mayHave func(*block) bool, f func(*entry) bool) {
	s.mu.Lock()
	blocks, tail := slices.Clone(s.sealed), slices.Clone(s.tail)
	s.mu.Unlock()
	for _, e := range slices.Backward(tail) {
		if !f(e) {
			return
		}
	}
	for i := len(blocks) - 1; i >= 0; i-- {
		if !mayHave(&blocks[i]) {
			continue
		}
		for _, e := range slices.Backward(blocks[i].open()) {
			if !f(e) {
				return
			}
		}
	}
}

// since returns when the oldest generation that is remembered was published; zero for none.
func (s *Store) since() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.sealed) > 0:
		return s.sealed[0].first
	case len(s.tail) > 0:
		return s.tail[0].At
	}
	return time.Time{}
}

func sealed(list []*entry) block {
	var packed bytes.Buffer
	w, _ := flate.NewWriter(&packed, flate.BestSpeed) // it fails for unknown levels alone
	encoder := gob.NewEncoder(w)
	b := block{first: list[0].At, index: newIndex()}
	for _, e := range list {
		_ = encoder.Encode(e.toSeal()) // a buffer takes all
		b.index.add(e)
	}
	_ = w.Close()
	b.data = slices.Clip(packed.Bytes())
	return b
}

func (b *block) open() (list []*entry) {
	decoder := gob.NewDecoder(flate.NewReader(bytes.NewReader(b.data)))
	for {
		var e entry
		if decoder.Decode(&e) != nil { // the end: its bytes are what sealed wrote
			return list
		}
		list = append(list, &e)
	}
}
