package cel

import (
	"regexp"
	"strconv"
	"strings"
)

// token is a word of an expression.
type token struct {
	kind tokenKind
	text string // as it is written; of a string what it stands for
	at   int    // in bytes
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNumber
	tokenString
	tokenSign
)

var (
	spaces   = regexp.MustCompile(`^[ \t\r\n]+`)
	someName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	number   = regexp.MustCompile(`^(0x[0-9A-Fa-f]+u?|[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?u?)`)
	text     = regexp.MustCompile(`^(?:"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')`)
	rawText  = regexp.MustCompile(`^(?:[rR]"[^"\r\n]*"|[rR]'[^'\r\n]*')`)
	sign     = regexp.MustCompile(`^(?:\|\||&&|<=|>=|==|!=|[-+*/%<>!?:.,()\[\]{}])`)
	escape   = regexp.MustCompile(`\\(?:[abfnrtv\\?"'` + "`" + `]|[xX][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[0-3][0-7]{2}|.?)`)
)

// next reads the token at the beginning of the rest.
func (p *parser) next() (token, error) {
	p.rest = p.rest[len(spaces.FindString(p.rest)):]
	t := token{at: p.size - len(p.rest)}
	for _, form := range []struct {
		kind tokenKind
		of   *regexp.Regexp
	}{{tokenString, rawText}, {tokenString, text}, {tokenName, someName}, {tokenNumber, number}, {tokenSign, sign}} {
		if t.text = form.of.FindString(p.rest); t.text != "" {
			t.kind = form.kind
			break
		}
	}
	if t.text == "" && p.rest != "" {
		return t, p.mistake(t.at, "has a character that begins nothing")
	}
	p.rest = p.rest[len(t.text):]
	switch t.kind {
	case tokenNumber:
		return t, p.checkNumber(t)
	case tokenString:
		return p.unquoted(t)
	}
	return t, nil
}

func (p *parser) checkNumber(t token) error {
	digits, unsigned := strings.CutSuffix(t.text, "u")
	var err error
	switch {
	case strings.ContainsAny(digits, ".eE") && !strings.HasPrefix(digits, "0x"):
		if unsigned {
			return p.mistake(t.at, "has a number that is none")
		}
		_, err = strconv.ParseFloat(digits, 64)
	case unsigned:
		_, err = strconv.ParseUint(digits, base(digits), 64)
	default:
		_, err = strconv.ParseInt(digits, base(digits), 64)
	}
	if err != nil {
		return p.mistake(t.at, "has a number that is too large")
	}
	return nil
}

func base(digits string) int {
	if strings.HasPrefix(digits, "0x") {
		return 0
	}
	return 10
}

// unquoted returns the token of a string with what it stands for.
func (p *parser) unquoted(t token) (token, error) {
	inside, raw := t.text, false
	if inside[0] == 'r' || inside[0] == 'R' {
		inside, raw = inside[1:], true
	}
	inside = inside[1 : len(inside)-1]
	if raw {
		t.text = inside
		return t, nil
	}
	bad := false
	t.text = escape.ReplaceAllStringFunc(inside, func(e string) string {
		switch {
		case len(e) == 2 && strings.Contains("abfnrtv", e[1:]):
			plain, _ := strconv.Unquote(`"` + e + `"`)
			return plain
		case len(e) == 2 && strings.Contains("\\?\"'`", e[1:]):
			return e[1:]
		case len(e) > 2:
			plain, err := strconv.Unquote(`"` + strings.Replace(e, `\X`, `\x`, 1) + `"`)
			bad = bad || err != nil
			return plain
		}
		bad = true
		return e
	})
	if bad {
		return t, p.mistake(t.at, "has a text with an escape that CEL does not know")
	}
	return t, nil
}
