package gotemplate

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"text/template/parse"
)

// The bounds of one evaluation.
const (
	maxSteps  = 200_000 // nodes
	maxOutput = 1 << 20 // bytes, also of what one function returns
	maxDepth  = 100     // templates within templates
)

// Funcs are functions by the names that templates call them. A function returns a value, or a
// value and an error.
type Funcs map[string]any

// Template is a parsed template with those that it defines. It is safe for concurrent use.
type Template struct {
	name  string
	trees map[string]*parse.Tree
	funcs map[string]reflect.Value
}

// Parse reads a template. The error names the line.
func Parse(name, text string, funcs Funcs) (*Template, error) {
	known := map[string]any{}
	maps.Copy(known, funcs)
	for _, builtin := range []string{"and", "or"} { // they do not evaluate all that they get
		known[builtin] = true
	}
	t := &Template{name: name, funcs: map[string]reflect.Value{}}
	for name, f := range builtins() {
		known[name], t.funcs[name] = f, reflect.ValueOf(f)
	}
	for name, f := range funcs {
		t.funcs[name] = reflect.ValueOf(f)
	}
	var err error
	t.trees, err = parse.Parse(name, text, "", "", known)
	return t, err
}

// Execute returns what the template makes of data.
func (t *Template) Execute(data any) ([]byte, error) {
	e := &execution{template: t}
	if err := e.run(t.name, data); err != nil {
		return nil, err
	}
	return e.out.Bytes(), nil
}

// execution is the state of one evaluation.
type execution struct {
	template  *Template
	tree      *parse.Tree // of the template that runs
	out       bytes.Buffer
	variables []variable
	steps     int
	depth     int
}

type variable struct {
	name  string
	value any
}

// errBreak and errContinue end the body of a range.
var (
	errBreak    = errors.New("break outside of a range")
	errContinue = errors.New("continue outside of a range")
)

// run evaluates one template of the set. Its variables are its own.
func (e *execution) run(name string, data any) error {
	tree := e.template.trees[name]
	switch {
	case tree == nil:
		return fmt.Errorf("template %q is not defined", name)
	case e.depth == maxDepth:
		return fmt.Errorf("template %q: more than %d templates within each other", name, maxDepth)
	}
	outer, variables := e.tree, e.variables
	e.tree, e.variables = tree, []variable{{"$", data}}
	e.depth++
	err := e.walk(data, tree.Root)
	e.depth--
	e.tree, e.variables = outer, variables
	return err
}

// fail returns an error that names where a node stands.
func (e *execution) fail(n parse.Node, format string, args ...any) error {
	where, what := e.tree.ErrorContext(n)
	return fmt.Errorf("template %s: <%s>: %w", where, what, fmt.Errorf(format, args...))
}

// set changes the innermost variable of that name.
func (e *execution) set(name string, value any) bool {
	for i := len(e.variables) - 1; i >= 0; i-- {
		if e.variables[i].name == name {
			e.variables[i].value = value
			return true
		}
	}
	return false
}

func (e *execution) declare(name string, value any) {
	e.variables = append(e.variables, variable{name, value})
}

func (e *execution) lookUp(name string) (value any, ok bool) {
	for i := len(e.variables) - 1; i >= 0; i-- {
		if e.variables[i].name == name {
			return e.variables[i].value, true
		}
	}
	return nil, false
}

// write adds to the output.
func (e *execution) write(n parse.Node, text string) error {
	if e.out.Len()+len(text) > maxOutput {
		return e.fail(n, "the output has more than %d bytes", maxOutput)
	}
	e.out.WriteString(text)
	return nil
}

// step counts a node.
func (e *execution) step(n parse.Node) error {
	if e.steps++; e.steps > maxSteps {
		return e.fail(n, "evaluation takes more than %d steps", maxSteps)
	}
	return nil
}
