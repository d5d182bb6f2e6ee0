package gotemplate

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"text/template"
	"time"
)

// The bounds of one evaluation.
const (
	maxText   = 256 << 10 // bytes of a template: reading it takes memory for each block within another
	maxSteps  = 200_000   // bodies of ranges and templates
	maxOutput = 1 << 20   // bytes, also of what one function returns
	maxDepth  = 100       // templates, blocks and values within each other
	maxWork   = 256 << 20 // bytes that go into functions and come out of them
	maxTime   = 10 * time.Second
)

// Funcs are functions by the names by which templates call them. A function returns a value, or a
// value and an error.
type Funcs = template.FuncMap

// Template is a parsed template with those that it defines. It is safe for concurrent use.
type Template struct {
	parsed *template.Template
	called Funcs // those that it calls, without bounds
}

// Parse reads a template, which may call the functions of Library and further ones, and sees data
// of a type. The error names the line.
func Parse(name, text string, further Funcs, data reflect.Type) (*Template, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("template: %s: has %d bytes; want at most %d", name, len(text), maxText)
	}
	all := Library()
	maps.Copy(all, further)
	parsed, err := template.New(name).Funcs(all).Parse(text)
	if err != nil {
		return nil, err
	}
	c := counter{methods: methodsOf(data), called: map[string]bool{}}
	for _, t := range parsed.Templates() {
		if err := c.template(t.Tree); err != nil {
			return nil, fmt.Errorf("template: %w", err)
		}
	}
	maps.DeleteFunc(all, func(name string, _ any) bool { return !c.called[name] })
	return &Template{parsed, all}, nil
}

// Execute returns what the template makes of data.
func (t *Template) Execute(data any) (out []byte, err error) {
	defer func() { // text/template passes on panics of the runtime
		if problem := recover(); problem != nil {
			err = fmt.Errorf("template %s: %v", t.parsed.Name(), problem)
		}
	}()
	own, err := t.parsed.Clone()
	if err != nil {
		return nil, err
	}
	e := &execution{end: time.Now().Add(maxTime)}
	if err := own.Funcs(e.bounded(t.called)).Funcs(e.functions()).Execute(e, data); err != nil {
		return nil, err
	}
	return e.out.Bytes(), nil
}

// execution counts what one evaluation takes.
type execution struct {
	out          bytes.Buffer
	steps, depth int
	work         int
	end          time.Time
}

// The names of the functions that count. No template may call them: they are not defined while one
// is parsed.
const (
	stepName  = "lateen_step"
	enterName = "lateen_enter"
	leaveName = "lateen_leave"
	printName = "lateen_print"
)

// functions are those that counter has called.
func (e *execution) functions() Funcs {
	return Funcs{stepName: e.step, enterName: e.enter, leaveName: e.leave, printName: e.print}
}

func (e *execution) step() (string, error) {
	if e.steps++; e.steps > maxSteps {
		return "", fmt.Errorf("evaluation takes more than %d steps", maxSteps)
	}
	return "", e.take(0)
}

func (e *execution) enter() (string, error) {
	if e.depth++; e.depth > maxDepth {
		return "", fmt.Errorf("more than %d templates within each other", maxDepth)
	}
	return e.step()
}

func (e *execution) leave() string {
	e.depth--
	return ""
}

// print returns what an action is to print, unless it is too large: text/template makes all of its
// text before it writes any.
func (e *execution) print(value reflect.Value) (reflect.Value, error) {
	if n := size(value, maxOutput, 0); n > maxOutput {
		return value, errTooLarge
	}
	return value, nil
}

// take counts bytes that functions work on, and the time.
func (e *execution) take(bytes int) error {
	if e.work += bytes; e.work > maxWork {
		return fmt.Errorf("functions get and make more than %d MiB", maxWork>>20)
	}
	if time.Now().After(e.end) {
		return fmt.Errorf("evaluation takes more than %v", maxTime)
	}
	return nil
}

// Write implements io.Writer.
func (e *execution) Write(b []byte) (int, error) {
	if e.out.Len()+len(b) > maxOutput {
		return 0, errors.New("the output has more than 1 MiB")
	}
	return e.out.Write(b)
}
