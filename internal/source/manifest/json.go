package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// jsonReader turns JSON into the nodes of YAML, with their lines. YAML's own parser refuses some
// JSON: tabs as indentation, "\/", surrogate pairs.
type jsonReader struct {
	decoder  *json.Decoder
	newlines []int // offsets of the line breaks
}

// maxJSONDepth bounds the recursion; YAML's parser has the same limit.
const maxJSONDepth = 10_000

func parseJSON(data []byte) ([]*yaml.Node, *syntaxError) {
	r := &jsonReader{decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	for i, c := range data {
		if c == '\n' {
			r.newlines = append(r.newlines, i)
		}
	}
	var documents []*yaml.Node
	for {
		n, err := r.value(0)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return documents, r.syntaxErrorOf(err, len(data))
		}
		documents = append(documents, n)
	}
}

func (r *jsonReader) syntaxErrorOf(err error, size int) *syntaxError {
	var syntax *json.SyntaxError
	offset := r.decoder.InputOffset()
	if errors.As(err, &syntax) {
		offset = syntax.Offset - 1
	}
	reason, want := err.Error(), ""
	if errors.Is(err, io.ErrUnexpectedEOF) {
		offset, reason, want = int64(size), "unexpected end of JSON", "the closing } or ]"
	}
	return &syntaxError{line: r.line(offset), reason: reason, want: want}
}

func (r *jsonReader) line(offset int64) int {
	before, _ := slices.BinarySearch(r.newlines, int(offset))
	return before + 1
}

// value reads one value. io.EOF means that there is none.
func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxJSONDepth)
	}
	token, err := r.decoder.Token()
	if err != nil {
		return nil, unexpectedEOF(err, depth)
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line(r.decoder.InputOffset() - 1)}
	switch t := token.(type) {
	case json.Delim:
		return r.compound(n, t, depth)
	case string:
		n.Tag, n.Value, n.Style = tagString, t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = tagInt, t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = tagFloat
		}
	case bool:
		n.Tag, n.Value = tagBool, fmt.Sprint(t)
	default:
		n.Tag, n.Value = tagNull, "null"
	}
	return n, nil
}

func (r *jsonReader) compound(n *yaml.Node, open json.Delim, depth int) (*yaml.Node, error) {
	n.Kind, n.Tag = yaml.MappingNode, "!!map"
	if open == '[' {
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	}
	for r.decoder.More() {
		child, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
	_, err := r.decoder.Token() // the closing bracket
	return n, unexpectedEOF(err, depth+1)
}

// unexpectedEOF turns an end of the text within a value into io.ErrUnexpectedEOF.
func unexpectedEOF(err error, depth int) error {
	if depth > 0 && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
