package gotemplate

import (
	"fmt"
	"reflect"
	"strings"
	"text/template/parse"
)

// command evaluates a command of a pipeline. last holds the value of the command before, if there
// is one.
func (e *execution) command(dot any, n *parse.CommandNode, last []any) (any, error) {
	if id, ok := n.Args[0].(*parse.IdentifierNode); ok {
		return e.function(dot, id, n.Args[1:], last)
	}
	if len(n.Args) > 1 || len(last) > 0 {
		return nil, e.fail(n.Args[0], "this is no function, and takes no arguments")
	}
	if _, ok := n.Args[0].(*parse.NilNode); ok {
		return nil, e.fail(n.Args[0], "nil is no command")
	}
	return e.eval(dot, n.Args[0])
}

// eval returns the value of an operand.
func (e *execution) eval(dot any, node parse.Node) (any, error) {
	if err := e.step(node); err != nil {
		return nil, err
	}
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.NilNode:
		return nil, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		return e.number(n)
	case *parse.FieldNode:
		return e.fields(n, dot, n.Ident)
	case *parse.PipeNode:
		return e.pipe(dot, n)
	case *parse.IdentifierNode:
		return e.function(dot, n, nil, nil)
	case *parse.VariableNode:
		value, ok := e.lookUp(n.Ident[0])
		if !ok {
			return nil, e.fail(n, "variable %s is not declared", n.Ident[0])
		}
		return e.fields(n, value, n.Ident[1:])
	case *parse.ChainNode:
		value, err := e.eval(dot, n.Node)
		if err != nil {
			return nil, err
		}
		return e.fields(n, value, n.Field)
	}
	return nil, e.fail(node, "cannot be evaluated")
}

// number is the value of a constant, of the type that text/template gives it. An imaginary number,
// of which 0i is also an integer to the parser, has none here.
func (e *execution) number(n *parse.NumberNode) (any, error) {
	hexadecimal := len(n.Text) > 2 && n.Text[0] == '0' && (n.Text[1] == 'x' || n.Text[1] == 'X') &&
		!strings.ContainsAny(n.Text, "pP")
	decimal := n.IsFloat && !hexadecimal && n.Text[0] != '\'' && strings.ContainsAny(n.Text, ".eEpP")
	switch {
	case n.IsComplex:
	case decimal:
		return n.Float64, nil
	case n.IsInt:
		return int(n.Int64), nil
	}
	return nil, e.fail(n, "want an integer of 64 bits or a decimal")
}

// fields follows a chain of names from a value.
func (e *execution) fields(n parse.Node, value any, names []string) (any, error) {
	for _, name := range names {
		var err error
		if value, err = field(value, name); err != nil {
			return nil, e.fail(n, "%w", err)
		}
	}
	return value, nil
}

// field returns a field of a struct, or an entry of a map.
func field(of any, name string) (any, error) {
	if s, ok := of.(fmt.Stringer); ok && name == "String" {
		return s.String(), nil
	}
	v := reflect.ValueOf(of)
	if getter, ok := strings.CutPrefix(name, "Get"); ok && structType(v) != nil {
		return got(v, getter)
	}
	v = indirect(v)
	switch v.Kind() {
	case reflect.Struct:
		if f := v.FieldByName(name); f.IsValid() && f.CanInterface() {
			return f.Interface(), nil
		}
		return nil, fmt.Errorf("%s has no field %s", v.Type(), name)
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			break
		}
		f := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key()))
		if !f.IsValid() {
			return nil, nil
		}
		return f.Interface(), nil
	case reflect.Invalid:
		if of == nil { // what a map lacks has no fields, and that is no mistake
			return nil, nil
		}
		return nil, fmt.Errorf("there is no %s in a nil %T", name, of)
	}
	return nil, fmt.Errorf("%s has no field %s", describe(of), name)
}

// structType returns the type of a struct, or of what a pointer to a struct points to.
func structType(v reflect.Value) reflect.Type {
	if !v.IsValid() {
		return nil
	}
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// got returns what a generated getter does: the field, or its zero value of no struct.
func got(v reflect.Value, name string) (any, error) {
	t := structType(v)
	f, ok := t.FieldByName(name)
	if !ok || !f.IsExported() {
		return nil, fmt.Errorf("%s has no field %s", t, name)
	}
	if v = indirect(v); !v.IsValid() {
		return reflect.Zero(f.Type).Interface(), nil
	}
	return v.FieldByIndex(f.Index).Interface(), nil
}

// zero is nil for an interface, and else the zero value.
func zero(t reflect.Type) any {
	if t.Kind() == reflect.Interface {
		return nil
	}
	return reflect.Zero(t).Interface()
}

// indirect follows pointers and interfaces; a nil one leads to the invalid value.
func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// truth reports whether a value counts as true: it is not the zero value of its kind, nor empty.
func truth(value any) bool {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() > 0
	case reflect.Struct:
		return true
	}
	return !v.IsZero()
}

// printed is a value as an action prints it.
func printed(value any) string {
	if value == nil {
		return "<no value>"
	}
	if _, ok := value.(fmt.Stringer); !ok {
		v := indirect(reflect.ValueOf(value))
		if !v.IsValid() {
			return "<nil>"
		}
		value = v.Interface()
	}
	return fmt.Sprint(value)
}

// describe is a value in an error.
func describe(value any) string {
	const shown = 40
	if value == nil {
		return "nothing"
	}
	text := fmt.Sprint(value)
	if len(text) > shown {
		text = text[:shown] + "…"
	}
	return fmt.Sprintf("%T %q", value, text)
}
