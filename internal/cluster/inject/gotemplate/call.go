package gotemplate

import (
	"errors"
	"fmt"
	"reflect"
	"text/template/parse"
)

// function calls a function with the values of its arguments, and the last value of the pipeline.
func (e *execution) function(dot any, id *parse.IdentifierNode, args []parse.Node, last []any) (any, error) {
	if id.Ident == "and" || id.Ident == "or" {
		return e.shortCircuit(dot, id, args, last)
	}
	var values []any
	for _, a := range args {
		value, err := e.eval(dot, a)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	result, err := call(e.template.funcs[id.Ident], append(values, last...))
	if err == nil && size(result, maxOutput) > maxOutput {
		err = fmt.Errorf("the result has more than %d bytes", maxOutput)
	}
	if err != nil {
		return nil, e.fail(id, "%s: %w", id.Ident, err)
	}
	return result, nil
}

// size returns about how many bytes a value has, and stops counting above a limit. A value may hold
// another many times.
func size(value any, limit int) int {
	const each = 8
	n := each
	switch v := value.(type) {
	case string:
		n += len(v)
	case map[string]any:
		for key, entry := range v {
			if n += len(key); n > limit {
				break
			}
			n += size(entry, limit-n)
		}
	case []any:
		for _, entry := range v {
			if n > limit {
				break
			}
			n += size(entry, limit-n)
		}
	}
	return n
}

// shortCircuit evaluates arguments only until one decides.
func (e *execution) shortCircuit(dot any, id *parse.IdentifierNode, args []parse.Node, last []any) (any, error) {
	var value any
	for _, a := range args {
		var err error
		if value, err = e.eval(dot, a); err != nil {
			return nil, err
		}
		if truth(value) == (id.Ident == "or") {
			return value, nil
		}
	}
	for _, value = range last {
		return value, nil
	}
	if len(args) == 0 {
		return nil, e.fail(id, "%s needs an argument", id.Ident)
	}
	return value, nil
}

// call calls f. A panic of f is an error: templates come from users.
func call(f reflect.Value, values []any) (result any, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	t := f.Type()
	fixed := t.NumIn()
	if t.IsVariadic() {
		fixed--
	}
	if len(values) < fixed || len(values) > fixed && !t.IsVariadic() {
		return nil, fmt.Errorf("it has %d arguments; want %d", len(values), fixed)
	}
	in := make([]reflect.Value, len(values))
	for i, value := range values {
		var want reflect.Type
		if i < fixed {
			want = t.In(i)
		} else {
			want = t.In(fixed).Elem()
		}
		if in[i], err = converted(value, want); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	out := f.Call(in)
	if len(out) == 2 && !out[1].IsNil() {
		err, ok := out[1].Interface().(error)
		if !ok {
			err = errors.New("it fails")
		}
		return nil, err
	}
	return out[0].Interface(), nil
}

// converted returns a value as a parameter of a function. Numbers become each other.
func converted(value any, want reflect.Type) (reflect.Value, error) {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		switch want.Kind() {
		case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
			return reflect.Zero(want), nil
		}
		return v, fmt.Errorf("there is nothing; want %s", want)
	}
	if v.Type().AssignableTo(want) {
		return v, nil
	}
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	} else if want.Kind() == reflect.Pointer && v.CanAddr() {
		v = v.Addr()
	}
	switch {
	case v.Type().AssignableTo(want):
		return v, nil
	case numeric(v.Kind()) && numeric(want.Kind()), v.Kind() == reflect.String && want.Kind() == reflect.String:
		return v.Convert(want), nil
	}
	return v, fmt.Errorf("%s; want %s", describe(value), want)
}

func numeric(k reflect.Kind) bool {
	return k >= reflect.Int && k <= reflect.Float64 && k != reflect.Uintptr
}
