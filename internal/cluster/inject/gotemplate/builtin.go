package gotemplate

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// builtins returns the functions of the language, except and and or. html, js, urlquery and call
// are not among them.
func builtins() Funcs {
	return Funcs{
		"not": func(value any) bool { return !truth(value) },
		"len": func(value any) (int, error) {
			switch v := indirect(reflect.ValueOf(value)); v.Kind() {
			case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
				return v.Len(), nil
			}
			return 0, fmt.Errorf("%s has no length", describe(value))
		},
		"index":   index,
		"slice":   slice,
		"eq":      equalsAny,
		"ne":      func(a, b any) (bool, error) { same, err := equalsAny(a, b); return !same, err },
		"lt":      func(a, b any) (bool, error) { order, err := compare(a, b); return order < 0, err },
		"le":      func(a, b any) (bool, error) { order, err := compare(a, b); return order <= 0, err },
		"gt":      func(a, b any) (bool, error) { order, err := compare(a, b); return order > 0, err },
		"ge":      func(a, b any) (bool, error) { order, err := compare(a, b); return order >= 0, err },
		"print":   func(values ...any) string { return fmt.Sprint(values...) },
		"println": func(values ...any) string { return fmt.Sprintln(values...) },
		"printf":  printf,
	}
}

// printf bounds the width of what it formats, because fmt does not.
func printf(format string, values ...any) (string, error) {
	digits := 0
	for _, r := range format {
		if digits++; r < '0' || r > '9' {
			digits = 0
		}
		if digits > 3 || r == '*' {
			return "", errors.New("want a width below 1000")
		}
	}
	return fmt.Sprintf(format, values...), nil
}

// index follows keys and indexes from a value.
func index(value any, keys ...any) (any, error) {
	for _, key := range keys {
		v := indirect(reflect.ValueOf(value))
		switch v.Kind() {
		case reflect.Map:
			k, err := converted(key, v.Type().Key())
			if err != nil {
				return nil, err
			}
			if found := v.MapIndex(k); found.IsValid() {
				value = found.Interface()
			} else {
				value = zero(v.Type().Elem())
			}
		case reflect.Slice, reflect.Array, reflect.String:
			at, err := converted(key, reflect.TypeFor[int]())
			if err != nil {
				return nil, err
			}
			if i := int(at.Int()); i < 0 || i >= v.Len() {
				return nil, fmt.Errorf("index %d is out of range; there are %d", i, v.Len())
			}
			value = v.Index(int(at.Int())).Interface()
		default:
			return nil, fmt.Errorf("%s has no elements", describe(value))
		}
	}
	return value, nil
}

// slice returns a part of a list or of a text.
func slice(value any, bounds ...int) (any, error) {
	v := indirect(reflect.ValueOf(value))
	if k := v.Kind(); k != reflect.Slice && k != reflect.String {
		return nil, fmt.Errorf("%s has no parts", describe(value))
	}
	from, to := 0, v.Len()
	switch len(bounds) {
	case 0:
	case 1:
		from = bounds[0]
	case 2:
		from, to = bounds[0], bounds[1]
	default:
		return nil, fmt.Errorf("it has %d bounds; want 2 at most", len(bounds))
	}
	if from < 0 || from > to || to > v.Len() {
		return nil, fmt.Errorf("[%d:%d] is out of range; there are %d", from, to, v.Len())
	}
	return v.Slice(from, to).Interface(), nil
}

// equalsAny reports whether the first value equals any of the others.
func equalsAny(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, errors.New("there is nothing to compare with")
	}
	for _, b := range others {
		if same, err := equals(a, b); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func equals(a, b any) (bool, error) {
	v, w := indirect(reflect.ValueOf(a)), indirect(reflect.ValueOf(b))
	switch {
	case !v.IsValid() || !w.IsValid():
		return v.IsValid() == w.IsValid(), nil
	case v.Kind() == reflect.Bool && w.Kind() == reflect.Bool:
		return v.Bool() == w.Bool(), nil
	case basic(v.Kind()) && basic(w.Kind()):
		order, err := compare(a, b)
		if err != nil {
			return false, nil //nolint:nilerr // a text is no number
		}
		return order == 0, nil
	case basic(v.Kind()) != basic(w.Kind()) || v.Kind() == reflect.Bool || w.Kind() == reflect.Bool:
		return false, nil
	}
	return false, fmt.Errorf("%s and %s cannot be compared", describe(a), describe(b))
}

func basic(k reflect.Kind) bool { return numeric(k) || k == reflect.String }

func compare(a, b any) (int, error) {
	v, w := indirect(reflect.ValueOf(a)), indirect(reflect.ValueOf(b))
	switch {
	case v.Kind() == reflect.String && w.Kind() == reflect.String:
		return strings.Compare(v.String(), w.String()), nil
	case v.CanInt() && w.CanInt():
		return cmp.Compare(v.Int(), w.Int()), nil
	case v.IsValid() && w.IsValid() && numeric(v.Kind()) && numeric(w.Kind()):
		float := reflect.TypeFor[float64]()
		return cmp.Compare(v.Convert(float).Float(), w.Convert(float).Float()), nil
	}
	return 0, fmt.Errorf("%s and %s have no order", describe(a), describe(b))
}
