package untrusted

import (
	"fmt"
	"strings"
)

// Limits bound what one text may cost.
type Limits struct {
	// Bytes is the size of the text.
	Bytes int
	// Values is how many values it may have: strings, numbers, true, false, null, objects, lists.
	// Names of fields do not count.
	Values int
	// Depth is how deep objects and lists may be nested.
	Depth int
}

// maxDepth is more than any API nests; schemas in CustomResourceDefinitions come closest.
const maxDepth = 200

// The API server stores at most 1.5 MiB of an object, and takes at most 3 MiB in a request.
const maxObject = 3 << 20

// Review returns the limits of an AdmissionReview, which has an object and what it was before.
func Review() Limits { return Limits{Bytes: 8 << 20, Values: 400_000, Depth: maxDepth} }

// Object returns the limits of one object. A ServiceEntry of the largest size has some 130,000
// values.
func Object() Limits { return Limits{Bytes: maxObject, Values: 200_000, Depth: maxDepth} }

// Pod returns the limits of a Pod, which is copied and merged. One with 1,000 variables has some
// 3,000 values.
func Pod() Limits { return Limits{Bytes: maxObject, Values: 50_000, Depth: maxDepth} }

// MaxAnnotations is the size in bytes of all annotations of one object, which the API server
// enforces. Whoever sends a review without an API server is held to it here.
const MaxAnnotations = 256 << 10

// Annotation returns the limits of an annotation.
func Annotation() Limits { return Limits{Bytes: MaxAnnotations, Values: 2_000, Depth: maxDepth} }

// Overlay returns the limits of a patch for one object, as users write it by hand.
func Overlay() Limits { return Limits{Bytes: 256 << 10, Values: 4_000, Depth: maxDepth} }

// Check returns an error if the JSON exceeds the limits. It reads the text once and allocates
// nothing. Of what is no JSON it says nothing: the decoder does.
func (l Limits) Check(raw []byte) error {
	m, err := l.measure(raw)
	if err != nil {
		return err
	}
	if m.values > l.Values {
		return fmt.Errorf("it has %d values; want at most %d", m.values, l.Values)
	}
	return nil
}

// measured is what a text has.
type measured struct {
	values int
	// costly is set if a number, or a string that looks like one, is too large for a quantity.
	costly bool
}

func (l Limits) measure(raw []byte) (m measured, err error) {
	if err := l.size(len(raw)); err != nil {
		return m, err
	}
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r', ',':
		case ':':
			m.values-- // what came before was a name
		case '{', '[':
			m.values++
			if depth++; depth > l.Depth {
				return m, fmt.Errorf("it is nested deeper than %d levels", l.Depth)
			}
		case '}', ']':
			depth--
		case '"':
			m.values++
			end := endOfString(raw, i+1)
			m.costly = m.costly || isCostly(raw[i+1:end])
			i = end
		default:
			m.values++
			end := i + 1
			for end < len(raw) && strings.IndexByte(" \t\n\r,:{}[]\"", raw[end]) < 0 {
				end++
			}
			m.costly = m.costly || isCostly(raw[i:end])
			i = end - 1
		}
	}
	return m, nil
}

func (l Limits) size(bytes int) error {
	if bytes > l.Bytes {
		return fmt.Errorf("it has %d bytes; want at most %d", bytes, l.Bytes)
	}
	return nil
}

// endOfString returns where the string that begins at a place ends, which is at its quote.
func endOfString(raw []byte, from int) int {
	for i := from; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(raw)
}
