package gotemplate

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp/syntax"
	"slices"
	"strings"
)

// The bounds of arguments.
const (
	// maxProduct is that of the sizes of arguments, where a result can be as large, or takes as
	// long.
	maxProduct = 64 * maxOutput
	// maxCount is how many numbers a function counts.
	maxCount = maxOutput / 8
	// maxCompared is the length of a list whose elements are all compared with each other.
	maxCompared = 1000
	// maxPattern is the length of a regular expression. Searching takes the product of the length
	// of the program that it is compiled to and that of the text.
	maxPattern = 1000
)

var errTooLarge = fmt.Errorf("the value has more than %d bytes, or %d levels", maxOutput, maxDepth)

// multiplying are functions whose result can be as large as the product of their arguments: of the
// lengths of texts and lists, and of numbers. comparing are those that compare all elements of a
// list with each other.
var (
	multiplying = []string{"repeat", "indent", "nindent", "replace", "wrap", "wrapWith", "join"}
	comparing   = []string{"uniq", "mustUniq", "without", "mustWithout"}
)

// bounded returns the functions as they are within bounds: with arguments and results of limited
// size, and arguments from which no larger one can come meanwhile.
func (e *execution) bounded(all Funcs) Funcs {
	out := Funcs{}
	for name, f := range all {
		out[name] = e.limited(reflect.ValueOf(f), boundOf(name))
	}
	return out
}

// boundOf returns the check of a function's arguments.
func boundOf(name string) func(args []reflect.Value) error {
	switch {
	case name == "regexQuoteMeta":
	case strings.Contains(strings.ToLower(name), "regex"):
		return searches
	case slices.Contains(multiplying, name):
		return multiply
	case slices.Contains(comparing, name):
		return compare
	case name == "until", name == "untilStep", name == "seq":
		return counts
	}
	return func([]reflect.Value) error { return nil }
}

var errArguments = errors.New("the arguments are too large")

// searches bounds what it takes to search a text for a pattern.
func searches(args []reflect.Value) error {
	pattern := args[0].String()
	if len(pattern) > maxPattern {
		return fmt.Errorf("the pattern has more than %d characters", maxPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil //nolint:nilerr // the function says so
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	total := float64(len(program.Inst))
	for _, v := range args[1:] {
		if v.Kind() == reflect.String { // the text, and what stands in for what is found
			total *= float64(v.Len() + 1)
		}
	}
	if total > maxProduct {
		return errArguments
	}
	return nil
}

// multiply bounds the product of arguments.
func multiply(args []reflect.Value) error {
	total := 1.0
	for _, v := range args {
		for v.Kind() == reflect.Interface && !v.IsNil() {
			v = v.Elem()
		}
		switch {
		case v.CanInt():
			total *= math.Abs(float64(v.Int())) + 1
		case v.Kind() == reflect.String:
			total *= float64(v.Len() + 1)
		default:
			total *= float64(size(v, maxOutput, 0))
		}
	}
	if total > maxProduct {
		return errArguments
	}
	return nil
}

// compare bounds the square of a list's length.
func compare(args []reflect.Value) error {
	list := args[0]
	for list.Kind() == reflect.Interface && !list.IsNil() {
		list = list.Elem()
	}
	if k := list.Kind(); (k == reflect.Slice || k == reflect.Array) && list.Len() > maxCompared {
		return errArguments
	}
	return nil
}

// counts bounds how many numbers lie between the arguments: where to begin and to end, and a step.
func counts(args []reflect.Value) error {
	var n []float64
	for _, v := range args {
		switch {
		case v.CanInt():
			n = append(n, float64(v.Int()))
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				n = append(n, float64(v.Index(i).Int()))
			}
		}
	}
	if len(n) == 1 {
		n = append(n, 0) // until counts from there
	}
	if len(n) > 0 && slices.Max(n)-slices.Min(n) > maxCount {
		return errArguments
	}
	return nil
}

// limited returns a function of the same arguments that checks them and its result.
func (e *execution) limited(f reflect.Value, check func([]reflect.Value) error) any {
	t := f.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	call := f.Call
	if t.IsVariadic() {
		call = f.CallSlice
	}
	result := func(value reflect.Value, err error) []reflect.Value {
		return []reflect.Value{value, reflect.ValueOf(&err).Elem()}
	}
	return reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{t.Out(0), reflect.TypeFor[error]()}, t.IsVariadic()),
		func(args []reflect.Value) []reflect.Value {
			taken := 0
			for _, v := range args {
				taken += size(v, maxArguments, 0)
			}
			err := errArguments
			if taken <= maxArguments {
				err = errors.Join(check(args), e.take(taken))
			}
			if err != nil {
				return result(reflect.Zero(t.Out(0)), err)
			}
			made := call(args)
			if len(made) == 2 && !made[1].IsNil() {
				return made
			}
			n := size(made[0], maxOutput, 0)
			if n > maxOutput {
				return result(made[0], errTooLarge)
			}
			return result(made[0], e.take(n))
		}).Interface()
}

// maxArguments is the size of all arguments of one call.
const maxArguments = 4 * maxOutput

// size returns about how many bytes a value has as text, and stops counting above a limit. A value
// may hold another many times, and itself: what has too many levels counts as too large.
func size(v reflect.Value, limit, depth int) int {
	const each = 8
	n := each
	if depth > maxDepth {
		return limit + 1
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			n += size(v.Elem(), limit-n, depth+1)
		}
	case reflect.String:
		n += v.Len()
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k <= reflect.Complex128 {
			return n + each*v.Len()
		}
		for i := 0; i < v.Len() && n <= limit; i++ {
			n += size(v.Index(i), limit-n, depth+1)
		}
	case reflect.Map:
		for entries := v.MapRange(); n <= limit && entries.Next(); {
			n += size(entries.Key(), limit-n, depth+1) + size(entries.Value(), limit-n, depth+1)
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && n <= limit; i++ {
			n += size(v.Field(i), limit-n, depth+1)
		}
	}
	return n
}
