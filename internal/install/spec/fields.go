package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fields are those of an object that is read field by field: what is taken is honoured, and what is
// left in the end is reported.
type fields struct {
	path string
	in   map[string]any
	r    *Reader
}

// fieldsOf returns the fields of a value, which has to be an object or nothing.
func (r *Reader) fieldsOf(path string, value any) fields {
	in, ok := value.(map[string]any)
	if !ok && value != nil {
		r.fail("%s = %s: want an object", path, short(value))
	}
	return fields{path, maps.Clone(in), r}
}

func (f fields) has(name string) bool {
	_, ok := f.in[name]
	return ok
}

func (f fields) at(name string) string { return strings.TrimPrefix(f.path+"."+name, ".") }

// take returns a value and marks it as honoured.
func (f fields) take(name string) (value any, set bool) {
	value, set = f.in[name]
	delete(f.in, name)
	return value, set && value != nil
}

// below returns the fields of an object, which become the caller's business.
func (f fields) below(name string) fields {
	value, _ := f.take(name)
	return f.r.fieldsOf(f.at(name), value)
}

// list returns the elements of a list.
func (f fields) list(name string) []any {
	value, set := f.take(name)
	if !set {
		return nil
	}
	all, ok := value.([]any)
	if !ok {
		f.r.fail("%s = %s: want a list", f.at(name), short(value))
	}
	return all
}

// text returns a text, empty if there is none.
func (f fields) text(name string) string {
	value, set := f.take(name)
	if !set {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		f.r.fail("%s = %s: want text", f.at(name), short(value))
	}
	return text
}

// bool returns true or false, and what it is without the field.
func (f fields) bool(name string, without bool) bool {
	value, set := f.take(name)
	if !set {
		return without
	}
	b, ok := value.(bool)
	if !ok {
		f.r.fail("%s = %s: want true or false", f.at(name), short(value))
		return without
	}
	return b
}

// to copies fields into values: pairs of a name and the dotted path there.
func (f fields) to(values map[string]any, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if value, set := f.take(pairs[i]); set {
			put(values, pairs[i+1], value)
		}
	}
}

// note reports fields that are there, with why they are without effect.
func (f fields) note(outcome string, names ...string) {
	for _, name := range names {
		if value, set := f.take(name); set {
			f.r.note(f.at(name), value, outcome)
		}
	}
}

// ignore drops fields that are honoured by doing nothing.
func (f fields) ignore(names ...string) {
	for _, name := range names {
		delete(f.in, name)
	}
}

// reportUnread reports the fields that nobody has taken.
func (f fields) reportUnread() {
	for _, name := range slices.Sorted(maps.Keys(f.in)) {
		f.r.leaves(f.at(name), f.in[name])
	}
	clear(f.in)
}

// leaves reports each value below an object that nothing reads.
func (r *Reader) leaves(path string, value any) {
	if of, ok := value.(map[string]any); ok && len(of) > 0 {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			r.leaves(path+"."+name, of[name])
		}
		return
	}
	if value != nil {
		r.note(path, value, "without effect: Lateen does not read it")
	}
}

func (r *Reader) note(field string, value any, outcome string) {
	r.notes = append(r.notes, Note{field, short(value), outcome})
}

func (r *Reader) fail(format string, args ...any) {
	if r.file != "" {
		format, args = "%s: "+format, append([]any{r.file}, args...)
	}
	r.problems = append(r.problems, fmt.Errorf(format, args...))
}

// short is a value as JSON that fits a table.
func short(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "…"
	}
	if s, ok := value.(string); ok {
		text = []byte(s)
	}
	const most = 40
	if runes := []rune(string(text)); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(text)
}
