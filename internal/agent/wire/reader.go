package wire

import (
	"errors"
	"math"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is the error of a message that is not protobuf.
var ErrMalformed = errors.New("the message is not valid protobuf")

// Reader reads the fields of a message where they lie. It is a value: a copy goes on reading from
// the same place.
type Reader struct {
	rest mem.BufferSlice
	buf  []byte // what is read next
	left int    // bytes of this message, those of buf included
	err  error
}

// Field is the head of a field. Of all wire types but bytes, the value is already behind.
type Field struct {
	Number protowire.Number
	// Size of a field of bytes, which is read next by Take, Skip or Message; -1 for others.
	Size int
	// Value of a varint.
	Value uint64
}

// NewReader returns a reader of a whole message.
func NewReader(data mem.BufferSlice) Reader { return Reader{rest: data, left: data.Len()} }

// Err is ErrMalformed if Next has returned false because of that.
func (r *Reader) Err() error { return r.err }

// Next reads the head of the next field. It returns false at the end of the message, and where it
// is malformed.
func (r *Reader) Next(f *Field) bool {
	if r.left == 0 || r.err != nil {
		return false
	}
	tag := r.varint()
	number, kind := protowire.DecodeTag(tag)
	*f = Field{Number: number, Size: -1}
	switch {
	case number < protowire.MinValidNumber:
		r.fail()
	case kind == protowire.VarintType:
		f.Value = r.varint()
	case kind == protowire.Fixed32Type:
		r.Skip(4)
	case kind == protowire.Fixed64Type:
		r.Skip(8)
	case kind == protowire.BytesType:
		size := r.varint()
		if size > uint64(r.left) { //nolint:gosec // left is never negative
			r.fail()
			break
		}
		f.Size = int(size) //nolint:gosec // it is at most left
	default: // groups, which no message here has
		r.fail()
	}
	return r.err == nil
}

// Take returns the next n bytes. They are valid as long as the message; they are copied where they
// lie in more than one buffer.
func (r *Reader) Take(n int) []byte {
	if !r.has(n) {
		return nil
	}
	if !r.fill() || len(r.buf) >= n {
		taken := r.buf[:min(n, len(r.buf))]
		r.buf, r.left = r.buf[len(taken):], r.left-len(taken)
		return taken
	}
	taken := make([]byte, 0, n)
	r.Each(n, func(part []byte) { taken = append(taken, part...) })
	return taken
}

// Skip skips n bytes.
func (r *Reader) Skip(n int) { r.Each(n, func([]byte) {}) }

// Message returns a reader of the next n bytes, and skips them.
func (r *Reader) Message(n int) Reader {
	inner := *r
	inner.left = min(n, r.left)
	r.Skip(n)
	return inner
}

// Left is how many bytes are left of the message.
func (r *Reader) Left() int { return r.left }

// Each calls a function with the next n bytes, in parts.
func (r *Reader) Each(n int, use func(part []byte)) {
	if !r.has(n) {
		return
	}
	for n > 0 && r.fill() {
		part := r.buf[:min(n, len(r.buf))]
		use(part)
		r.buf, r.left, n = r.buf[len(part):], r.left-len(part), n-len(part)
	}
}

// String reads the field as text.
func (r *Reader) String(f Field) string {
	if f.Size < 0 {
		return ""
	}
	return string(r.Take(f.Size))
}

// Pass skips the value of a field.
func (r *Reader) Pass(f Field) {
	if f.Size > 0 {
		r.Skip(f.Size)
	}
}

func (r *Reader) has(n int) bool {
	if n < 0 || n > r.left {
		r.fail()
	}
	return r.err == nil
}

func (r *Reader) fail() { r.err = ErrMalformed }

// fill sees to it that buf has something. It returns false at the end.
func (r *Reader) fill() bool {
	for len(r.buf) == 0 && len(r.rest) > 0 {
		r.buf, r.rest = r.rest[0].ReadOnlyData(), r.rest[1:]
	}
	return len(r.buf) > 0
}

func (r *Reader) varint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		if r.left == 0 || !r.fill() {
			r.fail()
			return 0
		}
		b := r.buf[0]
		r.buf, r.left = r.buf[1:], r.left-1
		if shift == 63 && b > 1 {
			r.fail()
			return 0
		}
		v |= uint64(b&math.MaxInt8) << shift
		if b < 0x80 {
			return v
		}
	}
	r.fail()
	return 0
}
