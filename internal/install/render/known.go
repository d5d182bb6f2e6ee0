package render

import (
	"bytes"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema knows the values that a chart takes.
type Schema struct {
	properties map[string]any
}

// SchemaOf returns the schema of a chart.
func SchemaOf(name string) (Schema, error) {
	c, err := load(name)
	if err != nil {
		return Schema{}, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	of, _ := document.(map[string]any)
	return Schema{of}, err
}

// Knows reports whether a chart takes a value under a path. Below an object whose names are free it
// takes all.
func (s Schema) Knows(path []string) bool {
	node := s.properties
	for _, name := range path {
		below, closed := node["properties"].(map[string]any)
		if !closed {
			return true // the names are free
		}
		next, ok := below[name].(map[string]any)
		if ok && isOfIstio(next) {
			return false
		}
		if !ok {
			return node["additionalProperties"] != false
		}
		node = next
	}
	return true
}

// Names reports whether a chart names a value under a path itself. A name that is free does not
// count.
func (s Schema) Names(path ...string) bool {
	node := s.properties
	for _, name := range path {
		below, _ := node["properties"].(map[string]any)
		next, ok := below[name].(map[string]any)
		if !ok || isOfIstio(next) {
			return false
		}
		node = next
	}
	return true
}

// OfIstio begins the description of a value that a chart takes for Istio's files alone.
const OfIstio = "Istio's; without effect"

// isOfIstio reports whether a value has no effect, so that it is none of the chart's own.
func isOfIstio(node map[string]any) bool {
	description, _ := node["description"].(string)
	return strings.HasPrefix(description, OfIstio)
}
