package serve

import (
	"errors"
	"io"
	"math"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// scanner reads the length-delimited fields of a message, and skips all others. The message stays
// in the buffers in which it arrived, one for each frame. A proxy that reconnects reports hundreds
// of kilobytes, and joining them would cost as much as reading them. Only a field that spans
// buffers is copied.
type scanner struct {
	n   protowire.Number
	v   []byte // valid until the next call of next
	err error

	buf    []byte // what is read next
	tail   []byte // what follows buf in the same buffer
	rest   mem.BufferSlice
	joined []byte // a field that spans buffers
}

// minJoined is how many bytes are joined at least.
const minJoined = 128

// next goes to the next field. It returns false at the end, or with err set where the message
// cannot be read.
func (s *scanner) next() bool {
	if n, size := shortField(s.buf); size > 0 {
		s.n, s.v, s.buf = n, s.buf[2:size], s.buf[size:]
		return true
	}
	return s.nextOfAny()
}

func (s *scanner) nextOfAny() bool {
	for s.more() {
		n, v, size := field(s.buf)
		if size > 0 {
			s.buf = s.buf[size:]
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

// more reports whether anything is left.
func (s *scanner) more() bool {
	if len(s.buf) == 0 {
		s.buf = s.take(math.MaxInt)
	}
	return len(s.buf) > 0
}

// take returns up to n of the bytes behind buf, none at the end.
func (s *scanner) take(n int) (taken []byte) {
	for len(s.tail) == 0 && len(s.rest) > 0 {
		s.tail, s.rest = s.rest[0].ReadOnlyData(), s.rest[1:]
	}
	n = min(n, len(s.tail))
	taken, s.tail = s.tail[:n], s.tail[n:]
	return taken
}

// join reads a field that does not end in buf; size is what field returned. It doubles what it
// looks at each time, because finding the end of a group takes reading all of it.
func (s *scanner) join(size int) (n protowire.Number, v []byte, _ int) {
	s.joined = append(s.joined[:0], s.buf...)
	var last []byte
	for isTruncated(size) {
		had := len(s.joined)
		for want := max(2*had, minJoined); len(s.joined) < want; {
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
	s.buf = s.joined[max(size, 0):]
	if left := len(s.buf); left <= len(last) { // go on in the buffer
		s.buf, s.tail = last[len(last)-left:len(last)+len(s.tail)], nil
	}
	return n, v, size
}

// isTruncated reports whether an error of protowire means that the bytes end too early.
func isTruncated(size int) bool { return errors.Is(protowire.ParseError(size), io.ErrUnexpectedEOF) }
