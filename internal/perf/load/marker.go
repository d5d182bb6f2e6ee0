package load

import (
	"bytes"
	"fmt"
	"iter"
)

// Marker is the number of a change, from 1. A name contains it as eight digits after a prefix. An
// address contains it as one of 198.18.0.0/15, which is reserved for benchmarks (RFC 2544). The
// zero Marker marks what has not changed yet.
type Marker int

// MaxMarker is the last Marker that has an address.
const MaxMarker Marker = 1<<17 - 1

const (
	markPrefix = "perf-mark-"
	markDigits = 8
)

func (m Marker) text() string    { return fmt.Sprintf("%s%0*d", markPrefix, markDigits, int(m)) }
func (m Marker) address() string { return fmt.Sprintf("198.%d.%d.%d", 18+m>>16, byte(m>>8), byte(m)) }

// Marked returns the highest marker in the bytes of a resource, in names and addresses, or 0.
func Marked(body []byte) Marker { return max(MarkedName(body), markedAddress(body)) }

// MarkedName returns the highest marker in names.
func MarkedName(body []byte) (highest Marker) {
	for {
		at := bytes.Index(body, []byte(markPrefix))
		if at < 0 {
			return highest
		}
		body = body[at+len(markPrefix):]
		if n, length := parseDigits(body, markDigits); length == markDigits {
			highest = max(highest, Marker(n))
		}
	}
}

// firstMark is the address of the zero Marker as a number.
const firstMark = 198<<24 | 18<<16

func markedAddress(body []byte) (highest Marker) {
	for a := range addressesIn(body, "198.") {
		if a >= firstMark && a <= firstMark+uint32(MaxMarker) {
			highest = max(highest, Marker(a-firstMark))
		}
	}
	return highest
}

// Addresses yields the addresses of pods in the bytes of a resource, markers included, as numbers.
// Other numbers of 10.0.0.0/8 and 198.0.0.0/8 may be among them.
func Addresses(body []byte) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, first := range []string{"10.", "198."} {
			for a := range addressesIn(body, first) {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// Address returns the first of Addresses.
func Address(body []byte) (uint32, bool) {
	for a := range Addresses(body) {
		return a, true
	}
	return 0, false
}

// addressesIn yields the addresses that begin with a number and a dot.
func addressesIn(body []byte, first string) iter.Seq[uint32] {
	head, _ := parseDigits([]byte(first), 3)
	return func(yield func(uint32) bool) {
		for rest := body; ; {
			at := bytes.Index(rest, []byte(first))
			if at < 0 {
				return
			}
			rest = rest[at+len(first):]
			if tail, length, ok := parseAddress(rest); ok {
				rest = rest[length:]
				if !yield(uint32(head)<<24 | tail) {
					return
				}
			}
		}
	}
}

// parseAddress reads the last three bytes of an address and returns their length as text.
func parseAddress(body []byte) (tail uint32, length int, ok bool) {
	for i := range 3 {
		n, digits := parseDigits(body[length:], 3)
		if digits == 0 || n > 255 {
			return 0, 0, false
		}
		tail, length = tail<<8|uint32(n), length+digits
		if i < 2 {
			if length == len(body) || body[length] != '.' {
				return 0, 0, false
			}
			length++
		}
	}
	return tail, length, true
}

// parseDigits reads at most so many digits.
func parseDigits(body []byte, digits int) (n, length int) {
	for length < digits && length < len(body) && body[length] >= '0' && body[length] <= '9' {
		n = 10*n + int(body[length]-'0')
		length++
	}
	return n, length
}
