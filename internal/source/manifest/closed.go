package manifest

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lateen-mesh/lateen/internal/source/istiojson"
)

// closedForm returns the JSON that stands for a refused document of a kind that protects.
func closedForm(n *yaml.Node, id identity) []byte {
	var spec bytes.Buffer
	text, err := protojson.Marshal(istiojson.ClosedSpec(id.resource.Kind, specAsJSON(n)))
	if err == nil {
		err = json.Compact(&spec, text) // protojson varies its white space
	}
	if err != nil {
		return nil // it has no string that is not UTF-8, so this does not happen
	}
	form, err := json.Marshal(map[string]any{
		"apiVersion": scalarAt(n, "apiVersion"),
		"kind":       id.kind,
		"metadata":   map[string]string{"namespace": id.namespace, "name": id.name},
		"spec":       json.RawMessage(spec.Bytes()),
	})
	if err != nil {
		return nil
	}
	return form
}

// specAsJSON returns the selector of a document's spec as JSON. It is empty if it cannot be read.
func specAsJSON(n *yaml.Node) json.RawMessage {
	selector := lookup(lookup(n, "spec"), "selector")
	if selector == nil {
		return nil
	}
	var value any
	if selector.Decode(&value) != nil {
		return nil
	}
	text, err := json.Marshal(map[string]any{"selector": value})
	if err != nil { // keys that are no strings
		return nil
	}
	return text
}

// unfinished returns why the end of a file looks cut off, or "".
func unfinished(documents []*yaml.Node) string {
	if len(documents) == 0 {
		return "it is empty"
	}
	last := documents[len(documents)-1]
	if isNull(last) {
		return `nothing follows its last "---"`
	}
	if hasSafeAliases(last) {
		last = lastItem(resolve(last))
	}
	if scalarAt(lookup(last, "metadata"), "name") == "" {
		return "its last document has no name"
	}
	return ""
}

// lastItem returns the last item of a List, and any other document itself.
func lastItem(n *yaml.Node) *yaml.Node {
	items, ok := listItems(n)
	if !ok || len(items) == 0 {
		return n
	}
	return resolve(items[len(items)-1])
}
