package load

import (
	"bytes"
	"fmt"
	"iter"
)

// Marker is the number of a change, from 1. In names it is eight digits behind a prefix, in addresses one of 198.18.0.0/15, which
// networks keep for measurements (RFC 2544). The zero Marker stands in what is not changed yet.
type Marker int

// MaxMarker is the last for which there is an address.
const MaxMarker Marker = 1<<17 - 1

const (
	markPrefix = "perf-mark-"
	markDigits = 8
)

func (m Marker) text() string    { return fmt.Sprintf("%s%0*d", markPrefix, markDigits, int(m)) }
func (m Marker) address() string { return fmt.Sprintf("198.%d.%d.%d", 18+m>>16, byte(m>>8), byte(m)) }

// Marked is the highest marker in the bytes of a resource, in names and in addresses; 0 if there is none.
func Marked(body []byte) Marker { return max(MarkedName(body), markedAddress(body)) }

// MarkedName is the highest marker among names.
func MarkedName(body []byte) (highest Marker) {
	for {
		at := bytes.Index(body, []byte(markPrefix))
		if at < 0 {
			return highest
		}
		body = body[at+len(markPrefix):]
		if n, length := number(body, markDigits); length == markDigits {
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

// Addresses are the addresses of pods in the bytes of a resource, those that are marks included, each as a number. Other numbers of
// 10.0.0.0/8 and 198.0.0.0/8 may be among them.
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

// Address is the first of Addresses.
func Address(body []byte) (uint32, bool) {
	for a := range Addresses(body) {
		return a, true
	}
	return 0, false
}

// addressesIn are the addresses in some bytes that begin with a number and a dot.
func addressesIn(body []byte, first string) iter.Seq[uint32] {
	head, _ := number([]byte(first), 3)
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

// parseAddress reads the three bytes of an address that follow the first, and tells how long they are as text.
func parseAddress(body []byte) (tail uint32, length int, ok bool) {
	for i := range 3 {
		n, digits := number(body[length:], 3)
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

// number reads up to so many digits.
func number(body []byte, digits int) (n, length int) {
	for length < digits && length < len(body) && body[length] >= '0' && body[length] <= '9' {
		n = 10*n + int(body[length]-'0')
		length++
	}
	return n, length
}
