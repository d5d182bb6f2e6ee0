package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// matcher decides whether calls meet conditions.
type matcher struct {
	call Call
	// domains are the trust domain of the mesh and its aliases.
	domains []string
	// allows is set for policies with ALLOW.
	allows bool
}

// meets reports whether a call meets a condition: the attribute has one of the values, unless there
// are none, and none of those that it must not have. If it does not, meets returns the failure,
// without its field.
func (m matcher) meets(k model.AuthorizationCondition) (Failure, bool) {
	has := func(v string) bool { return m.hasValue(k, v) || !m.allows && m.namesHost(k, v) }
	hasNot := func(v string) bool { return m.hasValue(k, v) || m.allows && m.namesHost(k, v) }
	got, known := m.call.value(k)
	failure := Failure{Attribute: nameOf(k), Got: got, Unknown: !known}
	if len(k.Values) > 0 && !slices.ContainsFunc(k.Values, has) {
		failure.Want = k.Values
		return failure, false
	}
	if i := slices.IndexFunc(k.NotValues, hasNot); i >= 0 {
		failure.Not = k.NotValues[i : i+1]
		return failure, false
	}
	return Failure{}, true
}

// hasValue reports whether an attribute of the call has a value, which may be a pattern.
func (m matcher) hasValue(k model.AuthorizationCondition, pattern string) bool {
	c, from := m.call, callerOf(m.call.Identity)
	known := c.Identity != ""
	switch k.Attribute {
	case model.SourcePrincipal:
		return known && m.isPrincipal(pattern, from)
	case model.SourceNamespace:
		return known && wild(pattern, from.namespace)
	case model.SourceServiceAccount:
		return known && pattern == from.namespace+"/"+from.account
	case model.SourceTrustDomain:
		return known && m.isDomain(pattern, from.domain)
	case model.SourceIP:
		return contains(pattern, c.Source)
	case model.RemoteIP:
		return contains(pattern, c.Remote)
	case model.DestinationIP:
		return contains(pattern, c.Destination)
	case model.DestinationPort:
		return pattern == portText(c.Port)
	case model.ConnectionSNI:
		return glob(pattern, c.SNI)
	case model.FilterMetadata:
		return hasMetadata(pattern, c.Metadata[k.Path[0]][k.Path[1]])
	default:
		return m.requestHas(k, pattern)
	}
}

// requestHas is hasValue for attributes of requests.
func (m matcher) requestHas(k model.AuthorizationCondition, pattern string) bool {
	c := m.call
	switch k.Attribute {
	case model.RequestHost:
		return glob(strings.ToLower(pattern), strings.ToLower(c.Host))
	case model.RequestMethod:
		return glob(strings.ToLower(pattern), strings.ToLower(c.Method))
	case model.RequestPath:
		if strings.Contains(pattern, "{") {
			return segmentsMatch(strings.Split(pattern, "/"), strings.Split(c.Path, "/"))
		}
		return glob(pattern, c.Path)
	case model.RequestHeader:
		value, set := c.Header(k.Path[0])
		return set && (pattern == "*" || glob(pattern, value))
	case model.RequestPrincipal:
		return c.isTokenOf(pattern)
	default:
		return hasText(c.claim(k), func(text string) bool { return glob(pattern, text) })
	}
}

// namesHost reports whether a pattern fits the host of the call under another spelling of it:
// without the port, and without the dot at its end. It is asked where a match refuses the call.
// Where a match lets it in, the host has to be as the pattern has it.
func (m matcher) namesHost(k model.AuthorizationCondition, pattern string) bool {
	if k.Attribute != model.RequestHost {
		return false
	}
	pattern = withoutLastDot(strings.ToLower(pattern))
	host := withoutLastDot(strings.ToLower(m.call.Host))
	if glob(pattern, host) {
		return true
	}
	for i := range host {
		if host[i] == ':' && glob(pattern, withoutLastDot(host[:i])) {
			return true
		}
	}
	return false
}

// withoutLastDot returns a host, with its port or without, as if its name did not end with a dot.
func withoutLastDot(host string) string {
	address := strings.LastIndexByte(host, ']') + 1
	name, port, hasPort := strings.Cut(host[address:], ":")
	if name = strings.TrimSuffix(name, "."); hasPort {
		name += ":" + port
	}
	return host[:address] + name
}

// isPrincipal matches a principal. One of the mesh's trust domain, for which "cluster.local" stands
// too, is also one of each of its aliases.
func (m matcher) isPrincipal(pattern string, from caller) bool {
	domain, rest, _ := strings.Cut(pattern, "/")
	if domain == "*" || strings.Count(pattern, "/") != 4 {
		return glob(pattern, from.whole)
	}
	ofMesh := func(d string) bool { return glob(domain, d) }
	named := slices.ContainsFunc(m.domains, ofMesh)
	if !named && domain != model.DefaultMesh().TrustDomain {
		return glob(pattern, from.whole)
	}
	_, own, _ := strings.Cut(from.whole, "/")
	return named && glob(pattern, from.whole) ||
		slices.Contains(m.domains, from.domain) && !ofMesh(from.domain) && glob(rest, own)
}

// isDomain matches a trust domain. That of the mesh is also each of its aliases.
func (m matcher) isDomain(pattern, domain string) bool {
	return wild(pattern, domain) || slices.Contains(m.domains, pattern) && slices.Contains(m.domains, domain)
}

// isTokenOf matches "issuer/subject" of the token. The issuer may have slashes. A pattern without
// one is about the issuer if its end is open, and about the subject if its beginning is.
func (c Call) isTokenOf(pattern string) bool {
	issuer, subject := pattern, ""
	switch at := strings.LastIndexByte(pattern, '/'); {
	case at >= 0:
		issuer, subject = pattern[:at], pattern[at+1:]
	case pattern == "*":
		subject = "*"
	case strings.HasPrefix(pattern, "*"):
		issuer, subject = "*", pattern
	case strings.HasSuffix(pattern, "*"):
		subject = "*"
	}
	ofToken := func(pattern, name string) bool {
		text, is := c.Claims[name].(string)
		return is && glob(pattern, text)
	}
	return ofToken(issuer, "iss") && ofToken(subject, "sub")
}

// segmentsMatch matches a path template: "{*}" is one segment, and "{**}" any number of them.
func segmentsMatch(pattern, path []string) bool {
	switch {
	case len(pattern) == 0 || len(path) == 0:
		return len(pattern) == len(path)
	case pattern[0] == "{**}":
		for n := range len(path) + 1 {
			if segmentsMatch(pattern[1:], path[n:]) {
				return true
			}
		}
		return false
	case pattern[0] == "{*}":
		return path[0] != "" && segmentsMatch(pattern[1:], path[1:])
	}
	return pattern[0] == path[0] && segmentsMatch(pattern[1:], path[1:])
}

// glob matches "*", "x*", "*x" and the text itself. "*" is any text that is not empty.
func glob(pattern, text string) bool {
	switch {
	case pattern == "*":
		return text != ""
	case strings.HasPrefix(pattern, "*"):
		return strings.HasSuffix(text, pattern[1:])
	case strings.HasSuffix(pattern, "*"):
		return strings.HasPrefix(text, pattern[:len(pattern)-1])
	}
	return pattern == text
}

// wild matches a name in which each "*" is any text.
func wild(pattern, name string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	if !more {
		return pattern == name
	}
	after, begins := strings.CutPrefix(name, first)
	if !begins {
		return false
	}
	for n := range len(after) + 1 {
		if wild(rest, after[n:]) {
			return true
		}
	}
	return false
}

func contains(prefix string, address netip.Addr) bool {
	p, err := netip.ParsePrefix(prefix)
	return err == nil && p.Contains(address.Unmap())
}

// hasMetadata matches a text, or with "[x]" a list that has x.
func hasMetadata(pattern string, value any) bool {
	if !strings.HasPrefix(pattern, "[") || !strings.HasSuffix(pattern, "]") {
		text, is := value.(string)
		return is && glob(pattern, text)
	}
	list, is := value.([]any)
	return is && hasText(list, func(text string) bool { return glob(strings.Trim(pattern, "[]"), text) })
}

// hasText reports whether a value of JSON is a text that matches, or a list with one.
func hasText(value any, matches func(string) bool) bool {
	switch v := value.(type) {
	case string:
		return matches(v)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool {
			text, is := e.(string)
			return is && matches(text)
		})
	}
	return false
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }
