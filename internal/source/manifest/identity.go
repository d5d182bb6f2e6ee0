package manifest

import (
	"go.yaml.in/yaml/v3"

	"github.com/lateen-mesh/lateen/internal/source"
)

// identity is what says which object a document is.
type identity struct {
	kind, namespace, name string
	resource              *usedKind // nil for what Lateen does not read
	unused                string    // why a document of a kind that exists is not used
}

func (id identity) key() source.Key {
	k := source.Key{Kind: id.resource.Kind, Namespace: id.namespace, Name: id.name}
	if id.resource.ClusterScoped {
		k.Namespace = ""
	}
	return k
}

// identify reads apiVersion, kind, metadata.namespace and metadata.name. With a problem reported, the document
// cannot be named.
func identify(w *walker, n *yaml.Node) identity {
	if n.Kind != yaml.MappingNode {
		w.wrongType(n, "a manifest: a map with apiVersion, kind, metadata and spec")
		return identity{}
	}
	apiVersion, kind := w.member(n, "apiVersion"), w.member(n, "kind")
	if len(w.problems) > 0 {
		return identity{}
	}
	metadata := lookup(n, "metadata")
	id := identity{kind: kind, name: scalarAt(metadata, "name"), namespace: scalarAt(metadata, "namespace")}
	v := theCatalogue().look(apiVersion, kind)
	id.resource, id.unused = v.resource, v.unused
	if v.field != "" {
		at := lookup(n, v.field)
		w.step(v.field)
		w.report(at, w.show(at), v.message, v.want)
		w.back()
	}
	if v.resource != nil {
		id.checkName(w, n)
	}
	return id
}

// member gives a string that each manifest has at the top.
func (w *walker) member(n *yaml.Node, name string) string {
	value := lookup(n, name)
	w.step(name)
	defer w.back()
	switch {
	case value == nil || isNull(value) || value.Value == "" && value.Kind == yaml.ScalarNode:
		w.report(n, "", "missing: the document is no manifest without it", "apiVersion and kind, such as \"v1\" and \"Service\"")
	case value.Kind != yaml.ScalarNode || tagOf(value) != tagString:
		w.wrongType(value, "a string")
	}
	return scalarAt(n, name)
}

// checkName reports a missing or a bad name or namespace, and fills in the default namespace.
func (id *identity) checkName(w *walker, n *yaml.Node) {
	metadata := lookup(n, "metadata")
	w.step("metadata")
	defer w.back()
	if metadata != nil && !isNull(metadata) && metadata.Kind != yaml.MappingNode {
		w.wrongType(metadata, "a map with name, namespace, labels, …")
		return
	}
	if !checkText(w, metadata, "name", id.resource.name) {
		if metadata == nil {
			metadata = n
		}
		w.step("name")
		w.report(metadata, "", "missing", "a name for the "+id.kind+" (generateName is not enough: a file is read again and again)")
		w.back()
	}
	if !checkText(w, metadata, "namespace", dnsLabel) {
		id.namespace = DefaultNamespace
	}
}

// checkText reports a member that is no string, or one that breaks a rule; given tells whether there is one.
func checkText(w *walker, n *yaml.Node, name string, rule nameRule) (given bool) {
	value := lookup(n, name)
	if value == nil || isNull(value) || value.Kind == yaml.ScalarNode && value.Value == "" {
		return false
	}
	w.step(name)
	defer w.back()
	if value.Kind != yaml.ScalarNode || tagOf(value) != tagString {
		text{}.check(w, value)
	} else if len(rule.check(value.Value)) > 0 {
		w.report(value, w.show(value), "not a valid "+name, rule.want)
	}
	return true
}

// checkLabels reports labels that no API server would take: nothing could ever select them.
func checkLabels(w *walker, n *yaml.Node) {
	for _, place := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}} {
		at := n
		for _, name := range place {
			at = lookup(at, name)
			w.step(name)
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
	w.step(e.name)
	defer w.back()
	if len(labelName.check(e.name)) > 0 {
		w.report(e.key, e.name, "not a valid name of a label", labelName.want)
	}
	if e.value.Kind != yaml.ScalarNode || tagOf(e.value) != tagString {
		return // the shape has the say
	}
	if len(labelValue.check(e.value.Value)) > 0 {
		w.report(e.value, w.show(e.value), "not a valid value of a label", labelValue.want)
	}
}

// listItems gives the items of a document of kind List.
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

// lookup gives the value of a key of a map, or nil: also when the node is no map. It heeds "<<".
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

// scalarAt is the text of a member that is a single value, or empty.
func scalarAt(n *yaml.Node, name string) string {
	value := lookup(n, name)
	if value == nil || value.Kind != yaml.ScalarNode || isNull(value) {
		return ""
	}
	return value.Value
}
