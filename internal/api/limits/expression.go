package limits

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
)

// What expressions ask about. Of a caller without a certificate, and of a request without the
// header, an expression comes to an error.
const (
	principalOf = "connection.uri_san_peer_certificate"
	pathOf      = "request.url_path"
	methodOf    = "request.method"
	hostOf      = "request.host"
	// tokenFilter is the filter that verifies tokens, and payload where it leaves their claims.
	tokenFilter = "envoy.filters.http.jwt_authn"
	payload     = "payload"
)

// Condition returns what has to be true of a request to be counted, in CEL; empty for none. An
// error is not true.
func Condition(m *ratelimit.Match) string {
	if m == nil {
		return ""
	}
	var all []string
	var paths []string
	for _, p := range m.Paths {
		paths = append(paths, textCondition(pathOf, p))
	}
	all = append(all, anyOf(paths))
	if len(m.Methods) > 0 {
		all = append(all, methodOf+" in "+list(m.Methods, ""))
	}
	for _, h := range m.Headers {
		name := quoted(strings.ToLower(h.Name))
		if h.StringMatch == (ratelimit.StringMatch{}) {
			all = append(all, name+" in request.headers")
			continue
		}
		all = append(all, textCondition("request.headers["+name+"]", h.StringMatch))
	}
	for _, c := range m.Claims {
		all = append(all, claimCondition(c))
	}
	if len(m.Principals) > 0 {
		all = append(all, principalOf+" in "+list(m.Principals, "spiffe://"))
	}
	var namespaces []string
	for _, n := range m.Namespaces {
		namespaces = append(namespaces, principalOf+".contains("+quoted("/ns/"+n+"/sa/")+")")
	}
	return allOf(append(all, anyOf(namespaces)))
}

// textCondition compares a text.
func textCondition(of string, m ratelimit.StringMatch) string {
	switch {
	case m.Prefix != "":
		return of + ".startsWith(" + quoted(m.Prefix) + ")"
	case m.Regex != "":
		return of + ".matches(" + quoted("^(?:"+m.Regex+")$") + ")"
	}
	return of + " == " + quoted(m.Exact)
}

// claimCondition compares a claim: a text is equal to a value, and a list has one. The other
// comparison comes to an error, which does not count beside one that is true.
func claimCondition(c ratelimit.ClaimMatch) string {
	var values []string
	for _, v := range c.Values {
		values = append(values, claim(c.Name)+" == "+quoted(v), quoted(v)+" in "+claim(c.Name))
	}
	return anyOf(values)
}

// claim is a claim of the verified token.
func claim(name string) string { return claims() + "[" + quoted(name) + "]" }

func claims() string {
	return "metadata.filter_metadata[" + quoted(tokenFilter) + "][" + quoted(payload) + "]"
}

// value returns what requests are told apart by, in CEL: the empty text for those without it.
func value(b ratelimit.By) string {
	switch {
	case b.Header != "":
		name := quoted(strings.ToLower(b.Header))
		return name + " in request.headers ? request.headers[" + name + "] : ''"
	case b.Claim != "":
		token := quoted(tokenFilter) + " in metadata.filter_metadata"
		has := quoted(payload) + " in metadata.filter_metadata[" + quoted(tokenFilter) + "]"
		return token + " && " + has + " && " + quoted(b.Claim) + " in " + claims() + " ? " + claim(b.Claim) + " : ''"
	case b.Request == ratelimit.Path:
		return pathOf
	case b.Request == ratelimit.Method:
		return methodOf
	case b.Request == ratelimit.Host:
		return hostOf
	}
	return "has(" + principalOf + ") ? " + principalOf + " : ''"
}

// AddressKey is the key of the entry with the caller's address. Envoy gives no other.
const AddressKey = "remote_address"

// KeyOf returns the key of the entry with what requests are told apart by.
func KeyOf(b ratelimit.By) string {
	if b.Source == ratelimit.Address {
		return AddressKey
	}
	return cmp.Or(
		b.Key, strings.ToLower(b.Header), b.Claim,
		strings.ToLower(string(b.Request)), strings.ToLower(string(b.Source)),
	)
}

// when is an expression that is a text where a condition holds, and an error elsewhere: requests
// then have no such descriptor.
func when(condition, text string) string { return "{true: " + quoted(text) + "}[" + condition + "]" }

func anyOf(all []string) string { return joined(all, " || ") }

func allOf(all []string) string {
	var set []string
	for _, one := range all {
		if one != "" {
			set = append(set, one)
		}
	}
	return joined(set, " && ")
}

func joined(all []string, operator string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return "(" + strings.Join(all, operator) + ")"
}

// list is a list of texts with a prefix.
func list(all []string, prefix string) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, quoted(prefix+strings.TrimPrefix(one, prefix)))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// quoted is a text as CEL has it. It has no control characters.
func quoted(text string) string {
	return fmt.Sprintf("'%s'", strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text))
}
