// Package fields compares two values in JSON field by field, as people read them. It may import
// admin/page.
package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// maxValue is the length in bytes of the longest value that a field is shown with.
const maxValue = 120

// Between returns the fields in which two values in JSON differ, in the order of their paths; nil
// stands for none. Members of lists with a name are compared by that, and have it in their path.
func Between(from, to any) []page.FieldChange {
	var d diff
	d.compare("", from, to)
	return d.changes
}

// Texts returns the fields in which two texts in JSON differ; none if one of them is no JSON.
func Texts(before, after string) []page.FieldChange {
	differ, _ := Follow(before, after)
	return differ
}

type diff struct {
	changes []page.FieldChange
	moves   Moves
}

// compare notes what differs between two values in JSON. nil stands for none.
func (d *diff) compare(path string, from, to any) {
	switch was := from.(type) {
	case map[string]any:
		if is, ok := to.(map[string]any); ok {
			d.compareObjects(path, was, is)
			return
		}
	case []any:
		if is, ok := to.([]any); ok {
			d.compareLists(path, was, is)
			return
		}
	}
	if !reflect.DeepEqual(from, to) {
		d.changes = append(d.changes, page.FieldChange{Path: path, Before: valueText(from), After: valueText(to)})
	}
}

func (d *diff) compareObjects(path string, from, to map[string]any) {
	names := maps.Clone(from)
	maps.Copy(names, to)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		d.compare(at, from[name], to[name])
	}
}

// compareLists compares members by name where all have one of their own, and else in order.
func (d *diff) compareLists(path string, from, to []any) {
	was, is := byName(from), byName(to)
	if was != nil && is != nil {
		names := maps.Clone(was)
		maps.Copy(names, is)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			d.compare(fmt.Sprintf("%s[%s]", path, name), was[name], is[name])
		}
		return
	}
	front, back := 0, 0
	for front < min(len(from), len(to)) && reflect.DeepEqual(from[front], to[front]) {
		front++
	}
	for back < min(len(from), len(to))-front && reflect.DeepEqual(from[len(from)-1-back], to[len(to)-1-back]) {
		back++
	}
	if len(from) != len(to) {
		d.moves = append(d.moves, move{path: path, front: front, back: len(from) - back, kept: len(to) - back,
			by: len(to) - len(from)})
	}
	from, to = from[front:len(from)-back], to[front:len(to)-back]
	for i := range max(len(from), len(to)) {
		d.compare(fmt.Sprintf("%s[%d]", path, front+i), member(from, i), member(to, i))
	}
}

func member(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// byName returns the members of a list by their names; nil if some has none, or two have the same.
func byName(list []any) map[string]any {
	found := map[string]any{}
	for _, x := range list {
		fields, _ := x.(map[string]any)
		name, _ := fields["name"].(string)
		if _, taken := found[name]; taken || name == "" {
			return nil
		}
		found[name] = x
	}
	return found
}

// valueText is a value in JSON, cut to a line; empty for none.
func valueText(v any) string {
	if v == nil {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(text) > maxValue {
		return fmt.Sprintf("%s… (%d bytes)", text[:maxValue], len(text))
	}
	return string(text)
}
