package gotemplate

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// The bounds of arguments.
const (
	// maxPattern is the length of a regular expression. Searching takes its product with that of
	// the text.
	maxPattern = 1000
	// maxProduct is that of the sizes of arguments, where a result can be as large, or takes as
	// long.
	maxProduct = 64 * maxOutput
	// maxCount is how many numbers a function counts.
	maxCount = maxOutput / 8
)

// multiplying are functions whose result can be as large as the product of their arguments: of the
// lengths of texts and lists, and of numbers.
var multiplying = []string{"repeat", "indent", "nindent", "replace", "wrap", "wrapWith", "join"}

// counting are functions that make a list of numbers.
var counting = []string{"until", "untilStep", "seq"}

// bounded returns the functions as they are within bounds: with results of limited size, and
// arguments from which no larger one can come meanwhile.
func bounded(all Funcs) Funcs {
	out := Funcs{}
	for name, f := range all {
		out[name] = limited(reflect.ValueOf(f), boundOf(name))
	}
	return out
}

// boundOf returns the check of a function's arguments.
func boundOf(name string) func(args []reflect.Value) error {
	switch {
	case strings.Contains(strings.ToLower(name), "regex"):
		return func(args []reflect.Value) error {
			if args[0].Len() > maxPattern {
				return fmt.Errorf("the pattern has more than %d characters", maxPattern)
			}
			return below(args, maxProduct)
		}
	case slices.Contains(multiplying, name):
		return func(args []reflect.Value) error { return below(args, maxProduct) }
	case slices.Contains(counting, name):
		return func(args []reflect.Value) error { return below(args, maxCount) }
	}
	return func([]reflect.Value) error { return nil }
}

// below reports an error if the sizes of arguments multiply to more than a limit.
func below(args []reflect.Value, limit float64) error {
	total := 1.0
	for _, v := range args {
		for v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		switch {
		case !v.IsValid():
		case v.CanInt():
			total *= math.Abs(float64(v.Int())) + 1
		case v.Kind() == reflect.String:
			total *= float64(v.Len() + 1)
		case v.Type().Elem().Kind() == reflect.Int: // the numbers that untilStep and seq are given
			for i := range v.Len() {
				total *= math.Abs(float64(v.Index(i).Int())) + 1
			}
		default:
			total *= float64(size(v, maxOutput, 0))
		}
	}
	if total > limit {
		return errors.New("the arguments are too large")
	}
	return nil
}

// limited returns a function of the same arguments that checks them and its result.
func limited(f reflect.Value, check func([]reflect.Value) error) any {
	t := f.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	call := f.Call
	if t.IsVariadic() {
		call = f.CallSlice
	}
	failure := reflect.TypeFor[error]()
	result := func(value reflect.Value, err error) []reflect.Value {
		return []reflect.Value{value, reflect.ValueOf(&err).Elem()}
	}
	return reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{t.Out(0), failure}, t.IsVariadic()),
		func(args []reflect.Value) []reflect.Value {
			if err := check(args); err != nil {
				return result(reflect.Zero(t.Out(0)), err)
			}
			made := call(args)
			if len(made) == 2 && !made[1].IsNil() {
				return made
			}
			if size(made[0], maxOutput, 0) > maxOutput {
				return result(made[0],
					fmt.Errorf("the result has more than %d bytes, or %d levels", maxOutput, maxDepth))
			}
			return result(made[0], nil)
		}).Interface()
}

// size returns about how many bytes a value has, and stops counting above a limit. A value may hold
// another many times, and itself: what has too many levels counts as too large. Structs count
// nothing, since templates cannot make any.
func size(v reflect.Value, limit, depth int) int {
	const each = 8
	n := each
	if depth > maxDepth {
		return limit + 1
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			n += size(v.Elem(), limit-n, depth)
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
	}
	return n
}
