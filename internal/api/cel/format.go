package cel

import (
	"errors"
	"regexp"
	"strings"
)

// A format string writes the first 128 bytes of a value.
const (
	formatStart = "%CEL("
	formatEnd   = "):128%"
)

var (
	// commandEnd is what ends a command in a format string, wherever it stands.
	commandEnd = regexp.MustCompile(`\)(:[0-9]+)?%`)
	// peerState is where Istio's own filters keep what a peer says of itself.
	peerState = regexp.MustCompile(`filter_state\s*(\.\s*|\[\s*["'](wasm\.)?)(up|down)stream_peer`)
)

// Format returns the format string of Envoy that writes the value of an expression, at most 128
// bytes of it. It says like Check why there is none. Envoy has no string() there, and writes all
// values as text anyway, so it is left out where it is all of the expression. Istio's node is
// xds.node in Envoy.
func Format(expression string) (string, error) {
	text := strings.TrimSpace(expression)
	if inner, ok := strings.CutPrefix(text, "string("); ok && strings.HasSuffix(inner, ")") {
		if inner = strings.TrimSuffix(inner, ")"); closed(inner) {
			text = inner
		}
	}
	p := &parser{rest: text, size: len(text), node: true}
	if err := p.all(); err != nil {
		return "", err
	}
	text = p.rewritten(text)
	switch {
	case peerState.MatchString(text):
		return "", errors.New("asks for what a peer says of itself, of which stock Envoy has the standard tags alone")
	case commandEnd.MatchString(text):
		return "", errors.New(`has a text with ")%", which ends a command in Envoy's format strings`)
	}
	return formatStart + text + formatEnd, nil
}

// Expression returns the expression that a format string of Format writes, as Istio's own filters
// take it.
func Expression(format string) string {
	return strings.TrimSuffix(strings.TrimPrefix(format, formatStart), formatEnd)
}

// closed reports whether a text is an expression, as what stands between two parentheses may not
// be.
func closed(text string) bool {
	p := &parser{rest: text, size: len(text), node: true}
	return p.all() == nil
}

// rewritten returns the expression that was read as Envoy takes it: on one line, with spaces around
// the sign %.
func (p *parser) rewritten(text string) string {
	var out strings.Builder
	from := 0
	for _, t := range p.changed {
		out.WriteString(text[from:t.at])
		switch t.kind {
		case tokenName:
			out.WriteString("xds." + t.text)
		default:
			out.WriteString(" " + t.text + " ")
		}
		from = t.at + len(t.text)
	}
	out.WriteString(text[from:])
	return strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(out.String())
}
