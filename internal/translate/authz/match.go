package authz

import (
	"regexp"
	"slices"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// text matches a pattern: "*" for any text that is not empty, "x*", "*x", or the text itself.
func text(pattern string) *matcherv3.StringMatcher {
	m := &matcherv3.StringMatcher{}
	switch {
	case pattern == "*":
		return regex(".+")
	case strings.HasPrefix(pattern, "*"):
		m.MatchPattern = &matcherv3.StringMatcher_Suffix{Suffix: pattern[1:]}
	case strings.HasSuffix(pattern, "*"):
		m.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: strings.TrimSuffix(pattern, "*")}
	default:
		m.MatchPattern = &matcherv3.StringMatcher_Exact{Exact: pattern}
	}
	return m
}

// regex matches a whole text.
func regex(expression string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{Regex: expression},
	}}
}

// part is the expression for a part of an identity, in which "*" stands for any text.
func part(pattern string) string {
	parts := strings.Split(pattern, "*")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return strings.Join(parts, "[^/]*")
}

// identity matches a pattern of the caller's identity, which in certificates begins with
// "spiffe://".
func identity(pattern string) *matcherv3.StringMatcher {
	const scheme = "spiffe://"
	switch {
	case pattern == "*":
		return text(pattern)
	case strings.HasPrefix(pattern, "*"):
		return regex(scheme + ".*" + regexp.QuoteMeta(pattern[1:]))
	default:
		return text(scheme + pattern)
	}
}

// header matches a header, "*" any value of it.
func header(name, pattern string, ignoreCase bool) *routev3.HeaderMatcher {
	if pattern == "*" {
		return &routev3.HeaderMatcher{
			Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
		}
	}
	return headerIs(name, text(pattern), ignoreCase)
}

func headerIs(name string, value *matcherv3.StringMatcher, ignoreCase bool) *routev3.HeaderMatcher {
	value.IgnoreCase = ignoreCase
	return &routev3.HeaderMatcher{
		Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: value},
	}
}

// withAliases adds the identities that differ by an alias of the mesh's trust domain. As in Istio,
// "cluster.local" stands for the trust domain of the mesh, and an identity that is no
// "domain/ns/x/sa/y" is left as it is.
func withAliases(identities []string, trustDomains *model.List[string]) []string {
	var out []string
	for _, id := range identities {
		domain, rest, _ := strings.Cut(id, "/")
		if domain == "*" || strings.Count(id, "/") != 4 || !isOfMesh(domain, trustDomains) {
			out = append(out, id)
			continue
		}
		for d := range trustDomains.All() {
			if matches(domain, d) {
				out = append(out, id)
			} else {
				out = append(out, d+"/"+rest)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isOfMesh reports whether a pattern of trust domains means one of the mesh.
func isOfMesh(domain string, trustDomains *model.List[string]) bool {
	if domain == "cluster.local" {
		return trustDomains.Len() > 0
	}
	for d := range trustDomains.All() {
		if matches(domain, d) {
			return true
		}
	}
	return false
}

func matches(pattern, value string) bool {
	if suffix, wild := strings.CutPrefix(pattern, "*"); wild {
		return strings.HasSuffix(value, suffix)
	}
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(value, prefix)
	}
	return pattern == value
}

// withAliasDomains adds the aliases of a trust domain of the mesh.
func withAliasDomains(domains []string, trustDomains *model.List[string]) []string {
	var out []string
	for _, domain := range domains {
		out = append(out, domain)
		for d := range trustDomains.All() {
			if d == domain {
				out = slices.AppendSeq(out, trustDomains.All())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// anyText matches a text, or a list with a text, that matches one of the patterns.
func anyText(patterns []string) *matcherv3.ValueMatcher {
	list := make([]*matcherv3.ValueMatcher, 0, len(patterns))
	for _, p := range patterns {
		list = append(list, pb.TextValue(text(p)))
	}
	return pb.TextOrList(pb.AnyValue(list))
}

// filterMetadata matches what a filter of Envoy left: a text, or with "[x]" a list that has x.
func filterMetadata(path []string, value string) *matcherv3.MetadataMatcher {
	if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
		return pb.Metadata(path[0], path[1:], pb.InList(pb.TextValue(text(strings.Trim(value, "[]")))))
	}
	return pb.Metadata(path[0], path[1:], pb.TextValue(text(value)))
}

// claim matches a claim of the verified token.
func claim(path []string, value *matcherv3.ValueMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Metadata{
		//nolint:staticcheck // Envoys before 1.34 do not know what is to replace it
		Metadata: pb.Claim(path, value),
	}}
}

// tokenPrincipal matches "issuer/subject" of the verified token. The issuer may have slashes. A
// pattern without a slash is one of the issuer, if its end is open.
func tokenPrincipal(pattern string) *rbacv3.Principal {
	issuer, subject := pattern, ""
	if i := strings.LastIndex(pattern, "/"); i >= 0 {
		issuer, subject = pattern[:i], pattern[i+1:]
	} else if strings.HasPrefix(pattern, "*") && pattern != "*" {
		issuer, subject = "*", pattern
	} else if strings.HasSuffix(pattern, "*") {
		subject = "*"
	}
	both := []*rbacv3.Principal{
		claim([]string{"iss"}, pb.TextValue(text(issuer))), claim([]string{"sub"}, pb.TextValue(text(subject))),
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: both}}}
}
