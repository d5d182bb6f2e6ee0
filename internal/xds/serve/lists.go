package serve

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// lists are session.Lists in an encoded DeltaDiscoveryRequest, which has been read once without an error.
type lists struct {
	message         []byte
	names, versions int
}

// Lengths implements session.Lists.
func (l *lists) Lengths() (subscribed, reported int) { return l.names, l.versions }

// Subscribed implements session.Lists.
func (l *lists) Subscribed() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for n, v := range fields(l.message) {
			if n == deltaSubscribe && !yield(v) {
				return
			}
		}
	}
}

// Reported implements session.Lists.
func (l *lists) Reported() iter.Seq2[[]byte, []byte] {
	return func(yield func(_, _ []byte) bool) {
		for n, v := range fields(l.message) {
			if n != deltaInitial {
				continue
			}
			if !yield(entry(v)) {
				return
			}
		}
	}
}

// entry is one of a map of strings.
func entry(b []byte) (key, value []byte) {
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

// fields yields the length-delimited fields of a message, up to an error.
func fields(b []byte) iter.Seq2[protowire.Number, []byte] {
	return func(yield func(protowire.Number, []byte) bool) {
		for len(b) > 0 {
			n, v, size := field(b)
			if size < 0 || v != nil && !yield(n, v) {
				return
			}
			b = b[size:]
		}
	}
}
