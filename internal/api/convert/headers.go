package convert

import (
	"regexp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

const wantHeader = "letters, digits and hyphens"

// isToken reports whether s is a valid name of a header, a method or a cookie (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !isAlphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// hasControl reports whether s has a character that no header value may have.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return (c < ' ' && c != '\t') || c == 0x7f })
}

func (r *reader) headerName(p path, name string) string {
	if !isToken(name) {
		r.fail(p, name, "is no name of a header", wantHeader)
	}
	return strings.ToLower(name)
}

// headerOps reads header operations. It returns a request's Host apart, because Envoy changes that
// only by a rewrite.
func (r *reader) headerOps(p path, in *networking.Headers) (ops *model.HeaderOps, authority string) {
	if in == nil {
		return nil, ""
	}
	ops = &model.HeaderOps{}
	ops.Request, authority = r.headerOp(p.dot("request"), in.GetRequest())
	var host string
	ops.Response, host = r.headerOp(p.dot("response"), in.GetResponse())
	if host != "" {
		r.fail(p.dot("response"), host, "sets Host, which responses do not have", "another header")
	}
	if isEmptyOp(ops.Request) && isEmptyOp(ops.Response) {
		return nil, authority
	}
	return ops, authority
}

func isEmptyOp(op model.HeaderOp) bool { return len(op.Set)+len(op.Add)+len(op.Remove) == 0 }

func (r *reader) headerOp(p path, in *networking.Headers_HeaderOperations) (op model.HeaderOp, authority string) {
	var set, added string
	op.Set, set = r.headerValues(p.dot("set"), in.GetSet())
	op.Add, added = r.headerValues(p.dot("add"), in.GetAdd())
	if set != "" && added != "" {
		r.fail(p, added, "sets Host twice", "once")
	}
	if set == "" {
		set = added
	}
	for i, name := range in.GetRemove() {
		if isAuthority(name) {
			r.fail(p.dot("remove").at(i), name, "cannot be removed", "another header")
			continue
		}
		op.Remove = append(op.Remove, r.headerName(p.dot("remove").at(i), name))
	}
	op.Remove = sorted(op.Remove)
	return op, set
}

// headerValues reads headers to set or add, sorted by name, and the value of Host apart. Values may
// be credentials, so problems do not repeat them.
func (r *reader) headerValues(p path, in map[string]string) (out []model.Header, authority string) {
	for _, name := range sortedKeys(in) {
		value := in[name]
		if wrong := headerValueMistake(value); wrong != "" {
			r.fail(p.key(name), nil, wrong, `plain text; "%%" for a percent sign`)
			continue
		}
		if isAuthority(name) {
			if value == "" || authority != "" {
				r.fail(p.key(name), value, "is no second or empty Host", "one host")
			}
			authority = value
			continue
		}
		out = append(out, model.Header{Name: r.headerName(p.key(name), name), Value: value})
	}
	slices.SortStableFunc(out, func(a, b model.Header) int { return strings.Compare(a.Name, b.Name) })
	return out, authority
}

func isAuthority(name string) bool {
	return strings.EqualFold(name, "host") || strings.EqualFold(name, ":authority")
}

// formatString is Envoy's syntax of values: text, "%%", and commands like
// "%DOWNSTREAM_REMOTE_ADDRESS%" or "%REQ(X-A):12%".
var formatString = regexp.MustCompile(`^(?:[^%]|%%|%[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?::[0-9]+)?%)*$`)

// maxHeaderSize is Envoy's bound of a value, in bytes.
const maxHeaderSize = 16384

func headerValueMistake(value string) string {
	switch {
	case hasControl(value):
		return "has control characters"
	case len(value) > maxHeaderSize:
		return "is longer than 16384 bytes"
	case !formatString.MatchString(value):
		return "has a percent sign that begins no command of Envoy"
	}
	return ""
}
