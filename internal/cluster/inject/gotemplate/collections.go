package gotemplate

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

func listFunctions() Funcs {
	return Funcs{
		"list":      func(values ...any) []any { return slices.Concat([]any{}, values) },
		"append":    func(l, value any) ([]any, error) { all, err := items(l); return append(all, value), err },
		"prepend":   prepend,
		"concat":    concat,
		"first":     func(l any) (any, error) { return at(l, func(n int) int { return 0 }) },
		"last":      func(l any) (any, error) { return at(l, func(n int) int { return n - 1 }) },
		"rest":      func(l any) ([]any, error) { all, err := items(l); return all[min(1, len(all)):], err },
		"initial":   func(l any) ([]any, error) { all, err := items(l); return all[:max(0, len(all)-1)], err },
		"reverse":   func(l any) ([]any, error) { all, err := items(l); slices.Reverse(all); return all, err },
		"compact":   func(l any) ([]any, error) { return kept(l, func(v any) bool { return !empty(v) }) },
		"has":       func(value, l any) (bool, error) { all, err := items(l); return position(all, value) >= 0, err },
		"without":   without,
		"uniq":      uniq,
		"join":      join,
		"sortAlpha": func(l any) ([]string, error) { all, err := texts(l); slices.Sort(all); return all, err },
		"splitList": func(by, s string) []string { return strings.Split(s, by) },
		"split":     split,
		"until":     func(n int) ([]int, error) { return count(0, n, 1) },
		"untilStep": count,
		"default":   byDefault,
		"empty":     empty,
		"coalesce":  coalesce,
		"ternary": func(yes, no any, which bool) any {
			if which {
				return yes
			}
			return no
		},
		"kindOf": func(value any) string { return kindOf(value) },
		"kindIs": func(kind string, value any) bool { return kindOf(value) == kind },
	}
}

func prepend(l, value any) ([]any, error) {
	all, err := items(l)
	return slices.Insert(all, 0, value), err
}

func kindOf(value any) string {
	if value == nil {
		return "invalid"
	}
	return reflect.TypeOf(value).Kind().String()
}

func empty(value any) bool {
	v := reflect.ValueOf(value)
	return !truth(value) || v.Kind() == reflect.Struct && v.IsZero()
}

// byDefault returns the first of the given values, or the standard one if that is empty.
func byDefault(standard any, given ...any) any {
	if len(given) == 0 || empty(given[0]) {
		return standard
	}
	return given[0]
}

func coalesce(values ...any) any {
	for _, v := range values {
		if !empty(v) {
			return v
		}
	}
	return nil
}

// items returns the elements of a list as a list of its own.
func items(l any) ([]any, error) {
	v := indirect(reflect.ValueOf(l))
	switch v.Kind() {
	case reflect.Invalid:
		return []any{}, nil
	case reflect.Slice, reflect.Array:
		all := make([]any, v.Len(), v.Len()+1)
		for i := range all {
			all[i] = v.Index(i).Interface()
		}
		return all, nil
	}
	return nil, fmt.Errorf("%s is no list", describe(l))
}

func texts(l any) ([]string, error) {
	all, err := items(l)
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = text(v)
	}
	return out, err
}

func concat(lists ...any) ([]any, error) {
	out := []any{}
	for _, l := range lists {
		all, err := items(l)
		if err != nil {
			return nil, err
		}
		if out = append(out, all...); len(out) > maxSteps {
			return nil, fmt.Errorf("the list has more than %d elements", maxSteps)
		}
	}
	return out, nil
}

func at(l any, which func(n int) int) (any, error) {
	all, err := items(l)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[which(len(all))], nil
}

func kept(l any, keep func(any) bool) ([]any, error) {
	all, err := items(l)
	return slices.DeleteFunc(all, func(v any) bool { return !keep(v) }), err
}

func position(all []any, value any) int {
	return slices.IndexFunc(all, func(v any) bool { same, err := equals(v, value); return same && err == nil })
}

func without(l any, values ...any) ([]any, error) {
	return kept(l, func(v any) bool { return position(values, v) < 0 })
}

func uniq(l any) ([]any, error) {
	var seen []any
	return kept(l, func(v any) bool {
		isNew := position(seen, v) < 0
		seen = append(seen, v)
		return isNew
	})
}

func join(by string, l any) (string, error) {
	if s, ok := l.(string); ok {
		return s, nil
	}
	all, err := texts(l)
	return strings.Join(all, by), err
}

// split returns the parts under the keys _0, _1, …
func split(by, s string) map[string]string {
	out := map[string]string{}
	for i, part := range strings.Split(s, by) {
		out[fmt.Sprintf("_%d", i)] = part
	}
	return out
}

func count(from, to, step int) ([]int, error) {
	if step == 0 || (to-from)/step > maxSteps {
		return nil, errors.New("want a step that leads there soon")
	}
	var all []int
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		all = append(all, i)
	}
	return all, nil
}

func dictFunctions() Funcs {
	return Funcs{
		"dict":           dict,
		"get":            func(d map[string]any, key string) any { return d[key] },
		"set":            set,
		"unset":          func(d map[string]any, key string) map[string]any { delete(d, key); return d },
		"hasKey":         func(d any, key string) bool { _, ok := entries(d)[key]; return ok },
		"keys":           keys,
		"values":         func(d any) []any { return listed(entries(d)) },
		"pick":           func(d any, names ...string) map[string]any { return picked(d, names, true) },
		"merge":          func(into map[string]any, others ...any) map[string]any { return merge(into, others, false) },
		"mergeOverwrite": func(into map[string]any, others ...any) map[string]any { return merge(into, others, true) },
		"deepCopy":       copied,
		"dig":            dig,
	}
}

// set sets a copy, so that no dict holds itself.
func set(d map[string]any, key string, value any) map[string]any {
	d[key] = copied(value)
	return d
}

func dict(values ...any) map[string]any {
	d := map[string]any{}
	for i := 0; i < len(values); i += 2 {
		var value any = ""
		if i+1 < len(values) {
			value = values[i+1]
		}
		d[text(values[i])] = value
	}
	return d
}

// entries returns the entries of a map with text keys; none of all else.
func entries(d any) map[string]any {
	v := indirect(reflect.ValueOf(d))
	out := map[string]any{}
	if v.Kind() != reflect.Map || v.Type().Key().Kind() != reflect.String {
		return out
	}
	for _, key := range v.MapKeys() {
		out[key.String()] = v.MapIndex(key).Interface()
	}
	return out
}

// keys returns the keys of all maps, sorted.
func keys(dicts ...any) []string {
	out := []string{}
	for _, d := range dicts {
		for key := range entries(d) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func listed(d map[string]any) []any {
	out := []any{}
	for _, key := range keys(d) {
		out = append(out, d[key])
	}
	return out
}

func picked(d any, names []string, keep bool) map[string]any {
	all := entries(d)
	for key := range all {
		if slices.Contains(names, key) != keep {
			delete(all, key)
		}
	}
	return all
}

// merge adds the entries of others, level by level.
func merge(into map[string]any, others []any, overwrite bool) map[string]any {
	for _, other := range others {
		for key, value := range entries(other) {
			before, there := into[key].(map[string]any)
			after, isMap := value.(map[string]any)
			switch {
			case there && isMap:
				merge(before, []any{after}, overwrite)
			case overwrite || empty(into[key]):
				into[key] = copied(value)
			}
		}
	}
	return into
}

// copied returns a value whose maps and lists are its own.
func copied(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, entry := range v {
			out[key] = copied(entry)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, entry := range v {
			out[i] = copied(entry)
		}
		return out
	}
	return value
}

// dig follows keys through maps: dig "a" "b" STANDARD dict.
func dig(args ...any) (any, error) {
	if len(args) < 3 {
		return nil, errors.New("want keys, what stands for a missing one, and a dict")
	}
	value, standard := args[len(args)-1], args[len(args)-2]
	for _, key := range args[:len(args)-2] {
		next, ok := entries(value)[text(key)]
		if !ok {
			return standard, nil
		}
		value = next
	}
	return value, nil
}
