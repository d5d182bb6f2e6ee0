package convert

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// condition reads the values of a condition. It returns false if a mistake makes it match no call.
//
// Values widen what a condition matches, and NotValues narrow it. A bad one that may be left out
// is: of Values in an ALLOW policy, as long as another is left, and of NotValues in any other. The
// rest of the mistakes drop the list, or the whole condition.
func (r authorizationRules) condition(
	p, not path, in model.AuthorizationCondition,
) (out model.AuthorizationCondition, matches bool) {
	out = model.AuthorizationCondition{Attribute: in.Attribute, Path: in.Path}
	const leftOut = "it is left out"
	onBad, onBadNot := r.mistake(), leftOut
	if r.allows {
		onBad, onBadNot = leftOut, r.mistake()
	}
	var bad, badNot bool
	out.Values, bad = r.values(p, in.Attribute, in.Values, onBad)
	out.NotValues, badNot = r.values(not, in.Attribute, in.NotValues, onBadNot)
	if r.allows {
		return out, !badNot && (!bad || len(out.Values) > 0)
	}
	if bad {
		out.Values = nil
	}
	return out, true
}

// values reads values of an attribute, sorted. It leaves out the bad ones, and says if there are.
func (r authorizationRules) values(
	p path, of model.AuthorizationAttribute, in []string, onBad string,
) (out []string, bad bool) {
	for i, text := range in {
		value, want := r.value(of, text)
		if want != "" {
			message := "cannot be read; "
			if text == "" {
				message = "is empty; "
			}
			r.fail(p.at(i), text, message+onBad, want)
			bad = true
			continue
		}
		if message, want := neverMatches(of, text); message != "" {
			r.warn(p.at(i), text, message+", so it matches nothing", want)
		} else if of == model.RequestMethod {
			if meant := misspeltMethod(text); meant != "" {
				const message = "is no registered method of HTTP, and one letter away from one"
				r.warn(p.at(i), text, message, strconv.Quote(meant))
			}
		}
		out = append(out, value)
	}
	return sorted(out), bad
}

// value reads one value. It returns what would be right, if it is wrong.
func (r authorizationRules) value(of model.AuthorizationAttribute, text string) (value, want string) {
	switch of {
	case model.SourceIP, model.RemoteIP, model.DestinationIP:
		if known := prefixText(text); known != "" {
			return known, ""
		}
		return "", wantPrefix
	case model.DestinationPort:
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			return strconv.FormatUint(n, 10), ""
		}
		return "", "a number from 0 to 65535"
	case model.SourceNamespace, model.SourceTrustDomain:
		if text != "" && identityPart.MatchString(text) {
			return text, ""
		}
		return "", `a name, "*", or one with "*" for any letters`
	case model.SourceServiceAccount:
		return r.serviceAccount(text)
	case model.RequestPath:
		if strings.Contains(text, "{*}") || strings.Contains(text, "{**}") {
			return text, templateMistake(text)
		}
	}
	if text == "" || hasControl(text) || !utf8.ValidString(text) {
		return "", `text; "x*" for a prefix, "*x" for a suffix, "*" for any`
	}
	return text, ""
}

// identityPart is a namespace or trust domain, or a pattern of them.
var identityPart = regexp.MustCompile(`^[a-zA-Z0-9._*-]{1,253}$`)

// account is a service account, with its namespace or without.
var account = regexp.MustCompile(`^(?:[a-z0-9]([a-z0-9-]*[a-z0-9])?/)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// serviceAccount completes the name of a service account with the policy's own namespace.
func (r authorizationRules) serviceAccount(text string) (value, want string) {
	if len(text) > 320 || !account.MatchString(text) {
		return "", `a name as "web" or "shop/web", without wildcards`
	}
	if !strings.Contains(text, "/") {
		text = r.meta.Namespace + "/" + text
	}
	return text, ""
}

// template is a path whose segments may be operators: "{*}" is one segment, and "{**}" is any
// number of segments.
var template = regexp.MustCompile(`^(?:/(?:\{\*\}|\{\*\*\}|[A-Za-z0-9._~%!$&'()+,;:@=-]*))+$`)

// templateMistake returns what would be right instead of a template, or "".
func templateMistake(text string) string {
	switch _, after, _ := strings.Cut(text, "{**}"); {
	case !template.MatchString(text):
		return `a path whose segments are text, "{*}" or "{**}", as "/shops/{*}/items", and no other wildcard`
	case strings.Contains(after, "{"):
		return `no operator after "{**}"`
	case strings.Count(text, "{") > maxOperators:
		return "at most 5 operators"
	}
	return ""
}

// maxOperators is Envoy's bound (kPatternMatchingMaxVariablesPerUrl).
const maxOperators = 5
