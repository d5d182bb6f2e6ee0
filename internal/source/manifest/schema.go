package manifest

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schema says what may stand at one place of a manifest. Schemas are built once, from the Go types
// of Kubernetes and the protobuf descriptors of Istio, and do not change.
type schema interface {
	// check reports what is wrong with a node (resolved, not null), and writes the node as JSON.
	check(w *walker, n *yaml.Node)
	// want says what belongs here, in a user's words.
	want() string
}

// objectSchema is a map with known fields: a Go struct or a protobuf message.
type objectSchema struct {
	fields map[string]field
	names  []string // sorted
}

// field is one field of an object.
type field struct {
	schema schema
	oneof  string // the group of which only one field may be set, or empty
}

func (o *objectSchema) add(name string, f field) {
	o.fields[name] = f
	o.names = append(o.names, name)
}

func (o *objectSchema) want() string {
	const enough = 6
	if len(o.names) == 0 {
		return "{}"
	}
	if len(o.names) <= enough {
		return "a map with " + strings.Join(o.names, ", ")
	}
	return "a map with " + strings.Join(o.names[:enough], ", ") + ", …"
}

func (o *objectSchema) check(w *walker, n *yaml.Node) {
	entries, ok := w.mapping(n, o.want())
	if !ok {
		return
	}
	leave := w.enterObject(o, entries)
	defer leave()
	w.openBracket('{')
	for _, e := range entries {
		f, known := o.fields[e.name]
		if !known {
			w.unknownField(o, e)
			continue
		}
		if isNull(e.value) { // as in Kubernetes: a null is a field that is not given
			continue
		}
		w.key(e.name)
		w.enterField(e.name)
		f.schema.check(w, e.value)
		w.leave()
	}
	w.closeBracket('}')
	o.checkOneofs(w, entries)
}

// checkOneofs reports fields that exclude each other.
func (o *objectSchema) checkOneofs(w *walker, entries []entry) {
	var chosen map[string][]entry
	for _, e := range entries {
		group := o.fields[e.name].oneof
		if group == "" || isNull(e.value) {
			continue
		}
		if chosen == nil {
			chosen = map[string][]entry{}
		}
		chosen[group] = append(chosen[group], e)
	}
	for group, set := range chosen { // in any order: problems are sorted in the end
		if len(set) < 2 {
			continue
		}
		slices.SortFunc(set, func(a, b entry) int { return comparePositions(a.key, b.key) })
		var all []string
		for _, name := range o.names {
			if o.fields[name].oneof == group {
				all = append(all, name)
			}
		}
		w.enterField(set[1].name)
		w.report(set[1].key, "", fmt.Sprintf("excludes %s, which is set on line %d", set[0].name, set[0].key.Line),
			"only one of "+strings.Join(all, ", "))
		w.leave()
	}
}

// listSchema is a list whose entries have one schema.
type listSchema struct{ element schema }

func (l *listSchema) want() string { return "a list" }

func (l *listSchema) check(w *walker, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		want := "a list: one entry per line, each begun by \"- \""
		if n.Kind == yaml.ScalarNode {
			want = "a list: [" + w.show(n) + "]"
		}
		w.wrongType(n, want)
		return
	}
	w.openBracket('[')
	for i, item := range n.Content {
		item = resolve(item)
		w.enterItem(i)
		if isNull(item) {
			w.report(item, "", "an empty entry in a list", l.element.want())
		} else {
			w.separate()
			l.element.check(w, item)
		}
		w.leave()
	}
	w.closeBracket(']')
}

// mapSchema is a map whose keys the user chooses.
type mapSchema struct{ element schema }

func (d *mapSchema) want() string { return "a map from names to values, each " + d.element.want() }

func (d *mapSchema) check(w *walker, n *yaml.Node) {
	entries, ok := w.mapping(n, d.want())
	if !ok {
		return
	}
	w.openBracket('{')
	for _, e := range entries {
		if isNull(e.value) {
			continue
		}
		w.key(e.name)
		w.enterField(e.name)
		unmask := w.mask(secretName.MatchString(e.name))
		d.element.check(w, e.value)
		unmask()
		w.leave()
	}
	w.closeBracket('}')
}

// anySchema is a place without a schema, such as a protobuf Struct.
type anySchema struct{ mapOnly bool }

func (a anySchema) want() string {
	if a.mapOnly {
		return "a map"
	}
	return "any value"
}

func (a anySchema) check(w *walker, n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		(&mapSchema{anySchema{}}).check(w, n)
	case yaml.SequenceNode:
		if a.mapOnly {
			w.wrongType(n, a.want())
			return
		}
		(&listSchema{anySchema{}}).check(w, n)
	default:
		if a.mapOnly || !writeScalar(w, n) {
			w.wrongType(n, a.want())
		}
	}
}
