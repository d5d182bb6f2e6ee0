package serve

import (
	"errors"
	"io"
	"math"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// scanner reads the length-delimited fields of a message, and passes over all others. The message stays in the buffers that it came in,
// one for each frame: what a proxy says that comes back is hundreds of kilobytes, and to put them together would cost as much as to
// read them. Only a field that ends in another buffer than it begins in is copied.
type scanner struct {
	n   protowire.Number
	v   []byte // valid until next is called again
	err error

	b      []byte // what is read next
	after  []byte // what comes behind that in the same buffer
	left   mem.BufferSlice
	joined []byte // what begins in one buffer and ends in another
}

// atOnce is how many bytes are joined at least.
const atOnce = 128

// next goes to the next field; false at the end or, with err, where the message cannot be read.
func (s *scanner) next() bool {
	if n, size := shortField(s.b); size > 0 {
		s.n, s.v, s.b = n, s.b[2:size], s.b[size:]
		return true
	}
	return s.nextOfAny()
}

func (s *scanner) nextOfAny() bool {
	for s.more() {
		n, v, size := field(s.b)
		if size > 0 {
			s.b = s.b[size:]
		} else {
			n, v, size = s.join(size)
		}
		if size < 0 {
			s.err = protowire.ParseError(size)
			return false
		}
		if v != nil {
			s.n, s.v = n, v
			return true
		}
	}
	return false
}

// more tells whether anything is left.
func (s *scanner) more() bool {
	if len(s.b) == 0 {
		s.b = s.take(math.MaxInt)
	}
	return len(s.b) > 0
}

// take is up to n of the bytes behind s.b, none at the end.
func (s *scanner) take(n int) (taken []byte) {
	for len(s.after) == 0 && len(s.left) > 0 {
		s.after, s.left = s.left[0].ReadOnlyData(), s.left[1:]
	}
	n = min(n, len(s.after))
	taken, s.after = s.after[:n], s.after[n:]
	return taken
}

// join reads a field that does not end in s.b; size is what field said. What it looks at is twice as much each time, because to find the end
// of a group takes reading all of it.
func (s *scanner) join(size int) (n protowire.Number, v []byte, _ int) {
	s.joined = append(s.joined[:0], s.b...)
	var last []byte
	for ends(size) {
		had := len(s.joined)
		for want := max(2*had, atOnce); len(s.joined) < want; {
			taken := s.take(want - len(s.joined))
			if len(taken) == 0 {
				break
			}
			s.joined, last = append(s.joined, taken...), taken
		}
		if len(s.joined) == had {
			break
		}
		n, v, size = field(s.joined)
	}
	s.b = s.joined[max(size, 0):]
	if left := len(s.b); left <= len(last) { // so it goes on in the buffer
		s.b, s.after = last[len(last)-left:len(last)+len(s.after)], nil
	}
	return n, v, size
}

// ends tells of an error of protowire's that it is the end of the bytes.
func ends(size int) bool { return errors.Is(protowire.ParseError(size), io.ErrUnexpectedEOF) }
