package cel

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// Limits of expressions. Envoy's parser takes more.
const (
	maxBytes = 4096
	maxDepth = 32
)

// attributes are what Envoy's expressions can ask about.
const attributes = "request response source destination connection upstream metadata filter_state " +
	"upstream_filter_state xds"

// reserved are words that are no names.
const reserved = "true false null in as break const continue else for function if import let loop package " +
	"namespace return var void while"

// functions are those that Envoy registers, with the numbers of arguments that they take. Those of
// an object are called as object.name(...).
var (
	functions = map[string][]int{
		"size": {1}, "int": {1}, "uint": {1}, "double": {1}, "bool": {1}, "bytes": {1}, "dyn": {1}, "type": {1},
		"timestamp": {1}, "duration": {1}, "matches": {2}, "has": {1},
	}
	methods = map[string][]int{
		"size": {0}, "matches": {1}, "startsWith": {1}, "endsWith": {1}, "contains": {1},
		"getFullYear": {0, 1}, "getMonth": {0, 1}, "getDate": {0, 1}, "getDayOfMonth": {0, 1}, "getDayOfWeek": {0, 1},
		"getDayOfYear": {0, 1}, "getHours": {0, 1}, "getMinutes": {0, 1}, "getSeconds": {0, 1},
		"getMilliseconds": {0, 1},
	}
)

// Check says why Envoy does not take an expression, nil if it does. The message begins with a verb,
// as in "has the function f, which Envoy does not have". It checks no types: a comparison that
// makes no sense is false.
func Check(expression string) error {
	p := &parser{rest: expression, size: len(expression)}
	return p.all()
}

// all reads the whole expression.
func (p *parser) all() error {
	if p.size > maxBytes {
		return fmt.Errorf("has more than %d bytes", maxBytes)
	}
	if err := p.advance(); err != nil {
		return err
	}
	if _, err := p.ternary(); err != nil {
		return err
	}
	if p.now.kind != tokenEnd {
		return p.unexpected()
	}
	return nil
}

// parser reads an expression from left to right; now is the token that comes next.
type parser struct {
	rest  string
	size  int // of all, in bytes
	now   token
	depth int
	// node takes Istio's attribute node too. It is among what is changed before Envoy gets the
	// expression, as signs % are.
	node    bool
	changed []token
}

// operand is what a part of an expression is, as far as what is around it has to know.
type operand struct {
	kind operandKind
	text string // of a string
}

type operandKind uint8

const (
	anyValue operandKind = iota
	fieldOf              // a field of something, as "request.path"
	literalText
)

func (p *parser) mistake(at int, what string) error { return fmt.Errorf("%s, at byte %d", what, at+1) }

func (p *parser) unexpected() error {
	if p.now.kind == tokenEnd {
		return fmt.Errorf("ends too early")
	}
	return p.mistake(p.now.at, fmt.Sprintf("has %q where nothing like it may stand", p.now.text))
}

func (p *parser) advance() (err error) {
	p.now, err = p.next()
	if p.isSign("%") {
		p.changed = append(p.changed, p.now)
	}
	return err
}

func (p *parser) isSign(text string) bool { return p.now.kind == tokenSign && p.now.text == text }

// take goes on behind a sign that has to be there.
func (p *parser) take(text string) error {
	if !p.isSign(text) {
		return p.unexpected()
	}
	return p.advance()
}

func (p *parser) ternary() (operand, error) {
	if p.depth++; p.depth > maxDepth {
		return operand{}, p.mistake(p.now.at, "is nested too deep")
	}
	defer func() { p.depth-- }()
	condition, err := p.binary(0)
	if err != nil || !p.isSign("?") {
		return condition, err
	}
	for _, sign := range []string{"?", ":"} {
		if err := p.take(sign); err != nil {
			return operand{}, err
		}
		if _, err := p.ternary(); err != nil {
			return operand{}, err
		}
	}
	return operand{}, nil
}

// levels are the binary operators, those that bind least first.
var levels = []string{"||", "&&", "< <= >= > == != in", "+ -", "* / %"}

func (p *parser) binary(level int) (operand, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	for err == nil && (p.now.kind == tokenSign || p.now.kind == tokenName) && hasWord(levels[level], p.now.text) {
		left = operand{}
		if err = p.advance(); err == nil {
			_, err = p.binary(level + 1)
		}
	}
	return left, err
}

func (p *parser) unary() (operand, error) {
	sign := p.now.text
	if !p.isSign("!") && !p.isSign("-") {
		return p.member()
	}
	for p.isSign(sign) {
		if err := p.advance(); err != nil {
			return operand{}, err
		}
	}
	_, err := p.member()
	return operand{}, err
}

func (p *parser) member() (operand, error) {
	of, err := p.primary()
	for err == nil {
		switch {
		case p.isSign("["):
			if err = p.advance(); err == nil {
				if _, err = p.ternary(); err == nil {
					err = p.take("]")
				}
			}
			of = operand{}
		case p.isSign("."):
			of, err = p.field()
		default:
			return of, nil
		}
	}
	return of, err
}

// field reads ".name" or ".name(arguments)".
func (p *parser) field() (operand, error) {
	if err := p.take("."); err != nil {
		return operand{}, err
	}
	name := p.now
	if name.kind != tokenName || hasWord(reserved, name.text) {
		return operand{}, p.unexpected()
	}
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	if p.isSign("(") {
		return operand{}, p.call(name, methods)
	}
	return operand{kind: fieldOf}, nil
}

func (p *parser) primary() (operand, error) {
	t := p.now
	switch {
	case t.kind == tokenName && hasWord("true false null", t.text), t.kind == tokenNumber:
		return operand{}, p.advance()
	case t.kind == tokenString:
		return operand{kind: literalText, text: t.text}, p.advance()
	case t.kind == tokenName && !hasWord(reserved, t.text):
		return operand{}, p.name(t)
	case p.isSign("("):
		if err := p.advance(); err != nil {
			return operand{}, err
		}
		if _, err := p.ternary(); err != nil {
			return operand{}, err
		}
		return operand{}, p.take(")")
	case p.isSign("["):
		_, err := p.list("]")
		return operand{}, err
	}
	return operand{}, p.unexpected()
}

// name reads a function with its arguments, or an attribute.
func (p *parser) name(t token) error {
	if err := p.advance(); err != nil {
		return err
	}
	if p.isSign("(") {
		return p.call(t, functions)
	}
	if p.node && t.text == "node" {
		p.changed = append(p.changed, t)
		return nil
	}
	if !hasWord(attributes, t.text) {
		return p.mistake(t.at, fmt.Sprintf("has the attribute %s, which Envoy does not have", t.text))
	}
	return nil
}

func (p *parser) call(name token, known map[string][]int) error {
	counts, has := known[name.text]
	if !has {
		return p.mistake(name.at, fmt.Sprintf("has the function %s, which Envoy does not have", name.text))
	}
	arguments, err := p.list(")")
	if err != nil {
		return err
	}
	if !slices.Contains(counts, len(arguments)) {
		return p.mistake(name.at, fmt.Sprintf("gives the function %s %d arguments", name.text, len(arguments)))
	}
	switch name.text {
	case "has":
		if arguments[0].kind != fieldOf {
			return p.mistake(name.at, `gives has() no field, as "request.useragent"`)
		}
	case "matches":
		if pattern := arguments[len(arguments)-1]; pattern.kind != literalText {
			return p.mistake(name.at, "gives matches() a pattern that is no text")
		} else if _, err := syntax.Parse(pattern.text, syntax.Perl); err != nil {
			return p.mistake(name.at, "gives matches() no regular expression: "+err.Error())
		}
	}
	return nil
}

// list reads operands up to a closing sign, behind the opening one.
func (p *parser) list(closing string) ([]operand, error) {
	var list []operand
	if err := p.advance(); err != nil {
		return nil, err
	}
	for !p.isSign(closing) {
		if len(list) > 0 {
			if err := p.take(","); err != nil {
				return nil, err
			}
		}
		one, err := p.ternary()
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, p.advance()
}

func hasWord(words, word string) bool { return slices.Contains(strings.Fields(words), word) }
