package gotemplate

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"text/template"
	"time"
)

// The bounds of one evaluation.
const (
	maxSteps  = 200_000 // bodies of ranges and templates
	maxOutput = 1 << 20 // bytes, also of what one function returns
	maxDepth  = 100     // templates within templates, values within values
	maxTime   = 10 * time.Second
)

// Funcs are functions by the names by which templates call them. A function returns a value, or a
// value and an error.
type Funcs = template.FuncMap

// Template is a parsed template with those that it defines. It is safe for concurrent use.
type Template struct{ parsed *template.Template }

// Parse reads a template, which may call the functions of Library and further ones. The error names
// the line.
func Parse(name, text string, further Funcs) (*Template, error) {
	all := Library()
	maps.Copy(all, further)
	parsed, err := template.New(name).Funcs(bounded(all)).Parse(text)
	if err != nil {
		return nil, err
	}
	for _, t := range parsed.Templates() {
		countBodies(t.Tree)
	}
	return &Template{parsed}, nil
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
	if err := own.Funcs(e.functions()).Execute(e, data); err != nil {
		return nil, err
	}
	return e.out.Bytes(), nil
}

// execution counts what one evaluation takes.
type execution struct {
	out          bytes.Buffer
	steps, depth int
	end          time.Time
}

// The names of the functions that count. No template may call them: they are not defined while one
// is parsed.
const (
	stepName  = "lateen_step"
	enterName = "lateen_enter"
	leaveName = "lateen_leave"
)

// functions are those that countBodies calls.
func (e *execution) functions() Funcs {
	return Funcs{stepName: e.step, enterName: e.enter, leaveName: e.leave}
}

func (e *execution) step() (string, error) {
	if e.steps++; e.steps > maxSteps {
		return "", fmt.Errorf("evaluation takes more than %d steps", maxSteps)
	}
	if time.Now().After(e.end) {
		return "", fmt.Errorf("evaluation takes more than %v", maxTime)
	}
	return "", nil
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

// Write implements io.Writer.
func (e *execution) Write(b []byte) (int, error) {
	if e.out.Len()+len(b) > maxOutput {
		return 0, errors.New("the output has more than 1 MiB")
	}
	return e.out.Write(b)
}
