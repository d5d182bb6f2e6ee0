package convert

import (
	"strings"
	"unicode/utf8"

	"github.com/lateen-mesh/lateen/internal/api/cel"
	"github.com/lateen-mesh/lateen/internal/api/limits"
	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
)

// maxCost is the most that Envoy lets a request count.
const maxCost = 1_000_000_000

// limitDescriptor checks which requests a limit counts and what they are told apart by. names are
// those of the limits before it.
func (r *reader) limitDescriptor(p path, d *ratelimit.Descriptor, names map[string]bool) {
	switch {
	case d.Name == "":
	case !isText(d.Name):
		r.fail(p.dot("name"), d.Name, "is no text"+withoutLimit, "text without control characters")
	case names[d.Name]:
		r.fail(p.dot("name"), d.Name, "is the name of another one, which comes first"+withoutLimit,
			"a name of its own")
	case strings.Trim(d.Name, "0123456789") == "":
		r.fail(p.dot("name"), d.Name, "is a number, as limits without a name have"+withoutLimit,
			"a name with a letter")
	}
	names[d.Name] = true
	if d.Cost < 0 || d.Cost > maxCost {
		r.fail(p.dot("cost"), d.Cost, "is out of range"+withoutLimit, "1 to 1000000000")
	}
	keys := map[string]bool{}
	for i, b := range d.By {
		r.limitBy(p.dot("by").at(i), b, keys)
	}
	if d.Match != nil {
		r.limitMatch(p.dot("match"), d.Match)
	}
}

// isText reports whether expressions can have a text: it is not empty, and has no control
// characters.
func isText(text string) bool { return text != "" && !hasControl(text) && utf8.ValidString(text) }

const wantBy = "one of header, claim, request and source"

// limitBy checks one value that requests are told apart by. keys are those of the ones before it.
func (r *reader) limitBy(p path, b ratelimit.By, keys map[string]bool) {
	set := 0
	for _, one := range []string{b.Header, b.Claim, string(b.Request), string(b.Source)} {
		if one != "" {
			set++
		}
	}
	switch {
	case set != 1:
		r.fail(p, nil, "does not say what requests are told apart by"+withoutLimit, wantBy)
		return
	case b.Header != "" && !isToken(b.Header):
		r.fail(p.dot("header"), b.Header, "is no name of a header"+withoutLimit, "a name as x-user")
	case b.Claim != "" && !isText(b.Claim):
		r.fail(p.dot("claim"), b.Claim, "is no name of a claim"+withoutLimit, "a name as sub")
	case b.Request != "" && b.Request != ratelimit.Path && b.Request != ratelimit.Method && b.Request != ratelimit.Host:
		r.fail(p.dot("request"), b.Request, "is no value of requests"+withoutLimit, "Path, Method or Host")
	case b.Source != "" && b.Source != ratelimit.Principal && b.Source != ratelimit.Address:
		r.fail(p.dot("source"), b.Source, "is no value of callers"+withoutLimit, "Principal or Address")
	case b.Key != "" && !isText(b.Key):
		r.fail(p.dot("key"), b.Key, "is no text"+withoutLimit, "text without control characters")
	case b.Key != "" && b.Source == ratelimit.Address:
		r.fail(p.dot("key"), b.Key, "cannot be told for an address"+withoutLimit, "no key: it is "+limits.AddressKey)
	}
	key := limits.KeyOf(b)
	if keys[key] {
		r.fail(p, key, "is the key of another one, which comes first"+withoutLimit, "another key")
	}
	keys[key] = true
}

// limitMatch checks the conditions of a limit.
func (r *reader) limitMatch(p path, m *ratelimit.Match) {
	start := r.mark()
	for i, s := range m.Paths {
		at := p.dot("paths").at(i)
		if r.limitText(at, s); s.Exact != "" && s.Exact[0] != '/' || s.Prefix != "" && s.Prefix[0] != '/' {
			r.fail(at, s.Exact+s.Prefix, "is no path: no request matches"+withoutLimit, "a path that begins with /")
		}
	}
	r.limitTexts(p.dot("methods"), m.Methods, isToken)
	for i, h := range m.Headers {
		at := p.dot("headers").at(i)
		if !isToken(h.Name) {
			r.fail(at.dot("name"), h.Name, "is no name of a header"+withoutLimit, "a name as x-user")
		}
		if h.StringMatch != (ratelimit.StringMatch{}) {
			r.limitText(at, h.StringMatch)
		}
	}
	for i, c := range m.Claims {
		at := p.dot("claims").at(i)
		if !isText(c.Name) {
			r.fail(at.dot("name"), c.Name, "is no name of a claim"+withoutLimit, "a name as sub")
		}
		if len(c.Values) == 0 {
			r.fail(at.dot("values"), nil, "is empty: no claim matches"+withoutLimit, "a value")
		}
		r.limitTexts(at.dot("values"), c.Values, isText)
	}
	r.limitTexts(p.dot("principals"), m.Principals, isText)
	r.limitTexts(p.dot("namespaces"), m.Namespaces, isName)
	if r.failure(start, p) != "" {
		return
	}
	condition := limits.Condition(m)
	if condition == "" {
		r.fail(p, nil, "has no condition"+withoutLimit, "a condition, or no match")
	} else if err := cel.Check(condition); err != nil {
		r.fail(p, nil, "is too much for one expression, which "+err.Error()+withoutLimit, "fewer conditions")
	}
}

// limitTexts checks a list of texts.
func (r *reader) limitTexts(p path, all []string, is func(string) bool) {
	for i, text := range all {
		if !is(text) {
			r.fail(p.at(i), text, "is nothing that a request has here"+withoutLimit, "a text that requests may have")
		}
	}
}

// limitText checks a condition on a text.
func (r *reader) limitText(p path, s ratelimit.StringMatch) {
	set := 0
	for _, text := range []string{s.Exact, s.Prefix, s.Regex} {
		if text == "" {
			continue
		}
		if set++; !isText(text) {
			r.fail(p, text, "is no text"+withoutLimit, "text without control characters")
		}
	}
	if set != 1 {
		r.fail(p, nil, "is no condition on a text"+withoutLimit, "one of exact, prefix and regex")
		return
	}
	if s.Regex != "" {
		r.regex(p.dot("regex"), s.Regex)
	}
}
