package gateways

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rule says what parameters may set in one place of an object. A list has the rule of its items.
type rule struct {
	// fields are the rules of an object's fields; others may not be set. Nil if any may.
	fields map[string]*rule
	// keys is the rule of the keys of a map, in place of fields; nil if any key may be set. It
	// returns what would be right, empty if the key and its value are.
	keys func(key string, value any) (want string)
	// right returns what would be right, empty if the value is. Nil if any value is.
	right func(value any) (want string)
}

// anything may be set, with all that is below it.
func anything() *rule { return &rule{} }

// only lets those values through that a function calls right.
func only(want string, right func(value any) bool) *rule {
	return &rule{right: func(value any) string {
		if right(value) {
			return ""
		}
		return want
	}}
}

// oneOf lets some texts through.
func oneOf(texts ...string) *rule {
	return only("one of "+strings.Join(texts, ", "), func(value any) bool {
		text, ok := value.(string)
		return ok && slices.Contains(texts, text)
	})
}

// always lets one value through.
func always(one bool) *rule {
	return only(fmt.Sprint(one), func(value any) bool { return value == one })
}

// below is the rule of an object, without any field yet.
func below() *rule { return &rule{fields: map[string]*rule{}} }

// with adds fields of the same rule.
func (r *rule) with(of *rule, names ...string) *rule {
	for _, name := range names {
		r.fields[name] = of
	}
	return r
}

// free adds fields that may have any value.
func (r *rule) free(names ...string) *rule { return r.with(anything(), names...) }

// directives of a strategic merge patch that say what becomes of an object or a list. What they
// take away is looked at in the result (pinned). Others reorder lists, which takes quadratic time.
const (
	patchDirective  = "$patch"
	retainDirective = "$retainKeys"
)

// refusal is the first thing in a patch that parameters may not set.
type refusal struct {
	path  string
	value any
	want  string
}

func (f *refusal) Error() string {
	const most = 64
	value := fmt.Sprint(f.value)
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "…"
	}
	return fmt.Sprintf("%s = %s may not be set by parameters; want %s", f.path, value, f.want)
}

// check returns what a patch sets and may not, nil for nothing. Fields come in the order of their
// names, so the same patch has the same answer. null takes a field away, which changes nothing for
// the better or the worse that the result does not show.
func (r *rule) check(path string, value any) *refusal {
	if value == nil {
		return nil
	}
	if r.right != nil {
		if want := r.right(value); want != "" {
			return &refusal{path, value, want}
		}
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		return r.checkObject(path, v)
	case []any:
		for i, item := range v {
			if f := r.check(fmt.Sprintf("%s[%d]", path, i), item); f != nil {
				return f
			}
		}
	}
	return nil
}

func (r *rule) checkObject(path string, of map[string]any) *refusal {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		at, value := strings.TrimPrefix(path+"."+name, "."), of[name]
		switch {
		case name == patchDirective || name == retainDirective:
			continue
		case strings.HasPrefix(name, "$"):
			return &refusal{at, value, "no directive but " + patchDirective + " and " + retainDirective}
		case r.keys != nil:
			if want := r.keys(name, value); want != "" {
				return &refusal{path + "[" + name + "]", value, want}
			}
			continue
		case r.fields == nil:
			if f := anything().check(at, value); f != nil {
				return f
			}
			continue
		}
		sub := r.fields[name]
		if sub == nil {
			return &refusal{at, value, "one of " + strings.Join(slices.Sorted(maps.Keys(r.fields)), ", ")}
		}
		if f := sub.check(at, value); f != nil {
			return f
		}
	}
	return nil
}
