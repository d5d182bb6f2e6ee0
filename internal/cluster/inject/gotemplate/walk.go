package gotemplate

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"text/template/parse"
)

// walk evaluates a node for its output.
func (e *execution) walk(dot any, node parse.Node) error {
	if err := e.step(node); err != nil {
		return err
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			if err := e.walk(dot, child); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode:
		return e.write(n, string(n.Text))
	case *parse.ActionNode:
		value, err := e.pipe(dot, n.Pipe)
		if err != nil || len(n.Pipe.Decl) > 0 {
			return err
		}
		return e.write(n, printed(value))
	case *parse.IfNode:
		return e.branch(dot, &n.BranchNode, false)
	case *parse.WithNode:
		return e.branch(dot, &n.BranchNode, true)
	case *parse.RangeNode:
		return e.loop(dot, n)
	case *parse.TemplateNode:
		data, err := any(nil), error(nil)
		if n.Pipe != nil {
			data, err = e.pipe(dot, n.Pipe)
		}
		if err != nil {
			return err
		}
		return e.run(n.Name, data)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	case *parse.CommentNode:
		return nil
	}
	return e.fail(node, "cannot be evaluated")
}

// branch is an if, or a with, which makes the value the dot.
func (e *execution) branch(dot any, n *parse.BranchNode, with bool) error {
	depth := len(e.variables)
	defer func() { e.variables = e.variables[:depth] }()
	value, err := e.pipe(dot, n.Pipe)
	switch {
	case err != nil:
		return err
	case !truth(value) && n.ElseList == nil:
		return nil
	case !truth(value):
		return e.walk(dot, n.ElseList)
	case with:
		dot = value
	}
	return e.walk(dot, n.List)
}

// loop is a range over a list, a map in the order of its keys, or a number.
func (e *execution) loop(dot any, n *parse.RangeNode) error {
	depth := len(e.variables)
	defer func() { e.variables = e.variables[:depth] }()
	decl := n.Pipe.Decl
	undeclared := *n.Pipe
	undeclared.Decl = nil
	value, err := e.pipe(dot, &undeclared)
	if err != nil {
		return err
	}
	each, err := elements(value)
	if err != nil {
		return e.fail(n.Pipe, "%w", err)
	}
	if len(each) == 0 && n.ElseList != nil {
		return e.walk(dot, n.ElseList)
	}
	assign := n.Pipe.IsAssign
	for _, element := range each {
		e.variables = e.variables[:depth]
		values := []any{element.value}
		if len(decl) == 2 {
			values = []any{element.key, element.value}
		}
		for i, d := range decl {
			if assign {
				e.set(d.Ident[0], values[i])
			} else {
				e.declare(d.Ident[0], values[i])
			}
		}
		err := e.walk(element.value, n.List)
		if errors.Is(err, errBreak) {
			return nil
		}
		if err != nil && !errors.Is(err, errContinue) {
			return err
		}
	}
	return nil
}

type element struct{ key, value any }

// elements returns what a range goes through.
func elements(value any) ([]element, error) {
	v := indirect(reflect.ValueOf(value))
	var all []element
	switch v.Kind() {
	case reflect.Invalid:
		return nil, nil
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			all = append(all, element{i, v.Index(i).Interface()})
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			all = append(all, element{key.Interface(), v.MapIndex(key).Interface()})
		}
		slices.SortFunc(all, func(a, b element) int { return cmp.Compare(fmt.Sprint(a.key), fmt.Sprint(b.key)) })
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		for i := range min(v.Int(), maxSteps) {
			all = append(all, element{i, i})
		}
	default:
		return nil, fmt.Errorf("range cannot go through %s", describe(value))
	}
	return all, nil
}

// pipe evaluates a pipeline: each command gets the value of the one before as its last argument.
func (e *execution) pipe(dot any, n *parse.PipeNode) (any, error) {
	if n == nil {
		return nil, nil
	}
	var last []any
	var value any
	for _, c := range n.Cmds {
		var err error
		if value, err = e.command(dot, c, last); err != nil {
			return nil, err
		}
		last = []any{value}
	}
	for _, d := range n.Decl {
		if n.IsAssign {
			e.set(d.Ident[0], value)
		} else {
			e.declare(d.Ident[0], value)
		}
	}
	return value, nil
}
