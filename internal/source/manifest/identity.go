package manifest

import (
	"go.yaml.in/yaml/v3"

	"github.com/lateen-mesh/lateen/internal/source"
)

// identity says which object a document is.
type identity struct {
	kind, namespace, name string
	resource              *readKind // nil for what Lateen does not read
	beside                bool      // a mesh has nothing to do with it
	unused                string    // why a document of a kind that exists is not used
}

func (id identity) key() source.Key {
	k := source.Key{Kind: id.resource.Kind, Namespace: id.namespace, Name: id.name}
	if id.resource.ClusterScoped {
		k.Namespace = ""
	}
	return k
}

// identify reads apiVersion, kind, metadata.namespace and metadata.name. If it reports a problem,
// the document cannot be identified.
func identify(w *walker, n *yaml.Node) identity {
	if n.Kind != yaml.MappingNode {
		w.wrongType(n, "a manifest: a map with apiVersion, kind, metadata and spec")
		return identity{}
	}
	apiVersion, kind := w.requiredString(n, "apiVersion"), w.requiredString(n, "kind")
	if len(w.problems) > 0 {
		return identity{}
	}
	metadata := lookup(n, "metadata")
	id := identity{kind: kind, name: scalarAt(metadata, "name"), namespace: scalarAt(metadata, "namespace")}
	v := kindCatalog().find(apiVersion, kind)
	id.resource, id.beside, id.unused = v.resource, v.beside, v.unused
	if v.field != "" {
		at := lookup(n, v.field)
		w.enterField(v.field)
		w.report(at, w.show(at), v.message, v.want)
		w.leave()
	}
	if v.resource != nil {
		id.checkName(w, n)
	}
	return id
}

// requiredString returns a string that every manifest has at its top level.
func (w *walker) requiredString(n *yaml.Node, name string) string {
	value := lookup(n, name)
	w.enterField(name)
	defer w.leave()
	switch {
	case value == nil || isNull(value) || value.Value == "" && value.Kind == yaml.ScalarNode:
		w.report(
			n, "", "missing: the document is no manifest without it",
			"apiVersion and kind, such as \"v1\" and \"Service\"",
		)
	case value.Kind != yaml.ScalarNode || tagOf(value) != tagString:
		w.wrongType(value, "a string")
	}
	return scalarAt(n, name)
}

// checkName reports a missing or bad name or namespace, and fills in the default namespace.
func (id *identity) checkName(w *walker, n *yaml.Node) {
	metadata := lookup(n, "metadata")
	w.enterField("metadata")
	defer w.leave()
	if metadata != nil && !isNull(metadata) && metadata.Kind != yaml.MappingNode {
		w.wrongType(metadata, "a map with name, namespace, labels, …")
		return
	}
	if !checkString(w, metadata, "name", id.resource.name) {
		if metadata == nil {
			metadata = n
		}
		w.enterField("name")
		w.report(
			metadata, "", "missing",
			"a name for the "+id.kind+" (generateName is not enough: a file is read again and again)",
		)
		w.leave()
	}
	if !checkString(w, metadata, "namespace", dnsLabel) {
		id.namespace = DefaultNamespace
	}
}

// checkString reports a field that is no string or breaks a rule. given reports whether it is set.
func checkString(w *walker, n *yaml.Node, name string, rule nameRule) (given bool) {
	value := lookup(n, name)
	if value == nil || isNull(value) || value.Kind == yaml.ScalarNode && value.Value == "" {
		return false
	}
	w.enterField(name)
	defer w.leave()
	if value.Kind != yaml.ScalarNode || tagOf(value) != tagString {
		stringSchema{}.check(w, value)
	} else if len(rule.check(value.Value)) > 0 {
		w.report(value, w.show(value), "not a valid "+name, rule.want)
	}
	return true
}

// checkLabels reports labels that no API server would accept.
func checkLabels(w *walker, n *yaml.Node) {
	for _, place := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}} {
		at := n
		for _, name := range place {
			at = lookup(at, name)
			w.enterField(name)
		}
		if at != nil && at.Kind == yaml.MappingNode {
			entries, _ := w.ownEntries(at)
			for _, e := range entries {
				checkLabel(w, e)
			}
		}
		w.path = w.path[:len(w.path)-len(place)]
	}
}

func checkLabel(w *walker, e entry) {
	w.enterField(e.name)
	defer w.leave()
	if len(labelName.check(e.name)) > 0 {
		w.report(e.key, e.name, "not a valid name of a label", labelName.want)
	}
	if e.value.Kind != yaml.ScalarNode || tagOf(e.value) != tagString {
		return // the schema reports it
	}
	if len(labelValue.check(e.value.Value)) > 0 {
		w.report(e.value, w.show(e.value), "not a valid value of a label", labelValue.want)
	}
}

// listItems returns the items of a document of kind List.
func listItems(n *yaml.Node) (items []*yaml.Node, ok bool) {
	if scalarAt(n, "kind") != "List" || scalarAt(n, "apiVersion") != "v1" {
		return nil, false
	}
	list := lookup(n, "items")
	if list == nil || isNull(list) {
		return nil, true
	}
	return list.Content, list.Kind == yaml.SequenceNode
}

// lookup returns the value of a key of a map, or nil; nil too if the node is no map. It follows
// merge keys ("<<").
func lookup(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var merged *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		switch {
		case key.Kind != yaml.ScalarNode:
		case key.Tag == "!!merge":
			if merged == nil {
				merged = lookup(resolve(n.Content[i+1]), name)
			}
		case key.Value == name:
			return resolve(n.Content[i+1])
		}
	}
	return merged
}

// scalarAt returns the text of a field that is a scalar, or "".
func scalarAt(n *yaml.Node, name string) string {
	value := lookup(n, name)
	if value == nil || value.Kind != yaml.ScalarNode || isNull(value) {
		return ""
	}
	return value.Value
}
