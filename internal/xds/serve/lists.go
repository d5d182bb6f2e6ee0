package serve

import (
	"iter"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// lists are session.Lists in an encoded DeltaDiscoveryRequest, which has been read once without an
// error.
type lists struct {
	message         mem.BufferSlice
	names, versions int
}

// Lengths implements session.Lists.
func (l *lists) Lengths() (subscribed, reported int) { return l.names, l.versions }

// Subscribed implements session.Lists.
func (l *lists) Subscribed() iter.Seq[[]byte] { return l.each(deltaSubscribe, l.names) }

// Reported implements session.Lists.
func (l *lists) Reported() iter.Seq2[[]byte, []byte] {
	return func(yield func(_, _ []byte) bool) {
		for v := range l.each(deltaInitial, l.versions) {
			if !yield(entry(v)) {
				return
			}
		}
	}
}

// each yields the count fields of a number.
func (l *lists) each(number protowire.Number, count int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := scanner{rest: l.message}
		for left := count; left > 0 && s.next(); {
			if s.n != number {
				continue
			}
			if left--; !yield(s.v) {
				return
			}
		}
	}
}

// entry returns the key and value of an entry of a map of strings.
func entry(b []byte) (key, value []byte) {
	if key, value, ok := shortEntry(b); ok {
		return key, value
	}
	for len(b) > 0 {
		n, v, size := field(b)
		if size < 0 {
			break
		}
		switch {
		case v == nil:
		case n == mapKey:
			key = v
		case n == mapValue:
			value = v
		}
		b = b[size:]
	}
	return key, value
}

// shortEntry is entry for one with a short key and a short value, and nothing else.
func shortEntry(b []byte) (key, value []byte, ok bool) {
	n, size := shortField(b)
	key, b = b[:size], b[size:]
	m, more := shortField(b)
	if n != mapKey || m != mapValue || more < len(b) {
		return nil, nil, false
	}
	return key[2:], b[2:], true
}
