package manifest

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
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
		"apiVersion": id.resource.versions[0],
		"kind":       id.kind,
		"metadata":   map[string]string{"namespace": id.namespace, "name": id.name},
		"spec":       json.RawMessage(spec.Bytes()),
	})
	if err != nil {
		return nil
	}
	return form
}

// policyOfNoVersion returns the refused document of an object of a kind that protects whose
// apiVersion is wrong, and whose name can be read. A document without a valid name is none: it
// might close a namespace that it was never for.
func policyOfNoVersion(file string, n *yaml.Node) (Document, bool) {
	id := identity{kind: scalarAt(n, "kind")}
	id.resource = kindCatalog().resources[kinds.Kind(id.kind)]
	if id.resource == nil || !id.resource.Protects {
		return Document{}, false
	}
	metadata := lookup(n, "metadata")
	id.name, id.namespace = scalarAt(metadata, "name"), scalarAt(metadata, "namespace")
	w := &walker{file: file}
	if id.checkName(w, n); len(w.problems) > 0 {
		return Document{}, false
	}
	return Document{Key: id.key(), Origin: Origin(file, n.Line), Line: n.Line, Closed: closedForm(n, id)}, true
}

// specAsJSON returns what selects workloads in a document's spec as JSON. It is empty if that
// cannot be read.
func specAsJSON(n *yaml.Node) json.RawMessage {
	spec, all := lookup(n, "spec"), map[string]any{}
	for _, name := range istiojson.Selecting() {
		field := lookup(spec, name)
		if field == nil {
			continue
		}
		var value any
		if field.Decode(&value) != nil {
			return nil
		}
		all[name] = value
	}
	text, err := json.Marshal(all)
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
	last := lastObject(documents)
	if isNull(last) {
		return `nothing follows its last "---"`
	}
	if scalarAt(lookup(last, "metadata"), "name") == "" {
		return "its last document has no name"
	}
	return ""
}

// isUnterminated reports whether the last value of a text may go on. Brackets and quotes end
// theirs.
func isUnterminated(data []byte) bool {
	return len(data) > 0 && !bytes.ContainsRune([]byte("\n}]\"'"), rune(data[len(data)-1]))
}

// lastObject returns the last document of a file, or the last item of a List. An alias stays one if
// it cannot be resolved.
func lastObject(documents []*yaml.Node) *yaml.Node {
	last := documents[len(documents)-1]
	if !hasSafeAliases(last) {
		return last
	}
	last = resolve(last)
	if items, ok := listItems(last); ok && len(items) > 0 {
		return resolve(items[len(items)-1])
	}
	return last
}

// lastPath returns the fields that lead to the value that was written last.
func lastPath(documents []*yaml.Node) (path []string) {
	if len(documents) == 0 {
		return nil
	}
	n := lastObject(documents)
	for n.Kind != yaml.AliasNode && len(n.Content) > 0 {
		end := len(n.Content) - 1
		if n.Kind == yaml.MappingNode {
			path = append(path, n.Content[end-1].Value)
		}
		n = n.Content[end]
	}
	return path
}
