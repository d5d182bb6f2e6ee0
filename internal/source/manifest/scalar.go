package manifest

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// scalarSchema is a single value.
type scalarSchema struct {
	wants  string
	limits string   // the limits of valid values; empty if wants says enough
	tags   []string // the types of YAML values that may have the right form
	// accept writes a valid value and refuses any other.
	accept func(w *walker, n *yaml.Node) bool
}

func (s *scalarSchema) want() string { return s.wants }

func (s *scalarSchema) check(w *walker, n *yaml.Node) {
	switch {
	case n.Kind != yaml.ScalarNode || !slices.Contains(s.tags, tagOf(n)):
		want := s.wants
		if bare := unquoted(n); n.Kind == yaml.ScalarNode && slices.Contains(s.tags, tagOf(bare)) {
			want += ", without quotes"
		}
		w.wrongType(n, want)
	case !s.accept(w, n):
		w.report(n, w.show(n), "not a valid value", cmp.Or(s.limits, s.wants))
	}
}

// unquoted returns a scalar as it would be read without its quotes.
func unquoted(n *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: n.Value}
}

// stringSchema is a string. It refuses numbers and booleans, as an API server does.
type stringSchema struct{}

func (stringSchema) want() string { return "a string" }

func (t stringSchema) check(w *walker, n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && tagOf(n) == tagString:
		w.text(n.Value)
	case n.Kind == yaml.ScalarNode && slices.Contains(bareTags, tagOf(n)):
		w.wrongType(n, "a string in quotes: "+w.showQuoted(n))
	default:
		w.wrongType(n, t.want())
	}
}

// enumSchema is a string out of a fixed set: a protobuf enum, or one of Kubernetes.
type enumSchema struct{ values []string }

func (c *enumSchema) want() string { return oneOf(c.values) }

func (c *enumSchema) check(w *walker, n *yaml.Node) {
	switch {
	case n.Kind != yaml.ScalarNode || tagOf(n) != tagString:
		w.wrongType(n, c.want())
	case !slices.Contains(c.values, n.Value):
		w.report(n, w.show(n), "no such value", c.want())
	default:
		w.text(n.Value)
	}
}

func boolean() schema {
	return &scalarSchema{wants: "true or false", tags: []string{tagBool}, accept: writeScalar}
}

func number() schema {
	return &scalarSchema{wants: "a number", tags: []string{tagInt, tagFloat}, accept: writeScalar}
}

// signed returns the schema of a whole number of the given bits.
func signed(bits int) schema {
	limit := int64(1)<<(bits-1) - 1
	return integer(fmt.Sprintf("a whole number from %d to %d", -limit-1, limit), func(digits string) (string, error) {
		v, err := strconv.ParseInt(digits, 0, bits)
		return strconv.FormatInt(v, 10), err
	})
}

// unsigned returns the schema of a whole number of the given bits that is not negative.
func unsigned(bits int) schema {
	limit := uint64(1)<<(bits-1)*2 - 1
	return integer(fmt.Sprintf("a whole number from 0 to %d", limit), func(digits string) (string, error) {
		v, err := strconv.ParseUint(digits, 0, bits)
		return strconv.FormatUint(v, 10), err
	})
}

// orQuoted also accepts the number in quotes, as the JSON form of protobuf does for 64 bits.
func orQuoted(s schema) schema {
	number := *s.(*scalarSchema)
	number.tags = append(slices.Clone(number.tags), tagString)
	return &number
}

// integer returns the schema of a whole number. decimal brings it into decimal form. 2.0 and 1e3
// are whole numbers too.
func integer(limits string, decimal func(digits string) (string, error)) schema {
	accept := func(w *walker, n *yaml.Node) bool {
		digits := plainDigits(n.Value)
		if tagOf(n) == tagFloat {
			f, err := strconv.ParseFloat(digits, 64)
			if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
				return false
			}
			digits = strconv.FormatFloat(f, 'f', -1, 64)
		}
		text, err := decimal(digits)
		w.raw(text)
		return err == nil
	}
	return &scalarSchema{wants: "a whole number", limits: limits, tags: []string{tagInt, tagFloat}, accept: accept}
}

// plainDigits removes what YAML allows in a number and strconv does not.
func plainDigits(s string) string {
	return strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+")
}

// writeScalar writes a value of any type as JSON. It returns false for a value without a JSON form.
func writeScalar(w *walker, n *yaml.Node) bool {
	switch tagOf(n) {
	case tagNull:
		w.raw("null")
	case tagBool:
		w.raw(strconv.FormatBool(isTrue(n.Value)))
	case tagInt:
		if v, err := strconv.ParseInt(plainDigits(n.Value), 0, 64); err == nil {
			w.raw(strconv.FormatInt(v, 10))
		} else if v, err := strconv.ParseUint(plainDigits(n.Value), 0, 64); err == nil {
			w.raw(strconv.FormatUint(v, 10))
		} else {
			return false
		}
	case tagFloat:
		f, err := strconv.ParseFloat(plainDigits(n.Value), 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return false
		}
		w.raw(strconv.FormatFloat(f, 'g', -1, 64))
	case tagString:
		w.text(n.Value)
	default:
		return false
	}
	return true
}

func base64Bytes() schema {
	accept := func(w *walker, n *yaml.Node) bool {
		decoded, err := base64.StdEncoding.DecodeString(n.Value)
		w.text(base64.StdEncoding.EncodeToString(decoded)) // without the line breaks of a block scalar
		return err == nil
	}
	return &scalarSchema{wants: "bytes in base64", tags: []string{tagString, tagBinary}, accept: accept}
}

// duration returns the schema of a google.protobuf.Duration in Istio's notation, which is Go's:
// "5s", "1h30m", "100ms".
func duration() schema {
	accept := func(w *walker, n *yaml.Node) bool {
		_, err := time.ParseDuration(n.Value)
		w.text(n.Value)
		return err == nil
	}
	return &scalarSchema{
		wants:  `a duration such as "5s", "100ms" or "1h30m"`,
		tags:   []string{tagString},
		accept: accept,
	}
}

func timestamp() schema {
	accept := func(w *walker, n *yaml.Node) bool {
		_, err := time.Parse(time.RFC3339, n.Value)
		w.text(n.Value)
		return err == nil
	}
	return &scalarSchema{wants: `a time such as "2006-01-02T15:04:05Z"`, tags: []string{tagString}, accept: accept}
}

// quantity returns the schema of an amount in Kubernetes' notation, which may be a bare number.
func quantity() schema {
	tags := []string{tagString, tagInt, tagFloat}
	accept := func(w *walker, n *yaml.Node) bool {
		_, err := untrusted.Quantity(n.Value)
		w.text(n.Value)
		return err == nil
	}
	return &scalarSchema{wants: `a quantity such as "100m", "0.5", "64Mi"`, tags: tags, accept: accept}
}

func intOrString() schema {
	accept := func(w *walker, n *yaml.Node) bool {
		if tagOf(n) == tagString {
			w.text(n.Value)
			return true
		}
		v, err := strconv.ParseInt(plainDigits(n.Value), 0, 32)
		w.raw(strconv.FormatInt(v, 10))
		return err == nil
	}
	return &scalarSchema{wants: "a whole number or a string", tags: []string{tagInt, tagString}, accept: accept}
}

// The types of scalars, by the short form of their YAML tags.
const (
	tagNull   = "!!null"
	tagBool   = "!!bool"
	tagInt    = "!!int"
	tagFloat  = "!!float"
	tagString = "!!str"
	tagBinary = "!!binary"
)

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && tagOf(n) == tagNull }

// bareTags are the types of values that become strings when they are quoted.
var bareTags = []string{tagBool, tagInt, tagFloat}

// yaml11Boolean matches booleans of YAML 1.1, which Kubernetes' clients read. In YAML 1.2 they are
// strings.
var yaml11Boolean = regexp.MustCompile(`^(?:y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF)$`)

// tagOf returns the type of a scalar as kubectl would read it: yes, no, on and off are booleans
// unless quoted, and a date is a string.
func tagOf(n *yaml.Node) string {
	tag := n.ShortTag()
	switch {
	case tag == "!!timestamp":
		return tagString
	case tag == tagString && n.Style == 0 && len(n.Value) <= 3 && yaml11Boolean.MatchString(n.Value):
		return tagBool
	}
	return tag
}

// isTrue returns the value of a boolean.
func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "true", "yes", "y", "on":
		return true
	}
	return false
}
