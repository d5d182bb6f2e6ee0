package authz_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
)

func portText(port uint32) string { return fmt.Sprint(port) }

// TestFiltersDecideAsDocumented compares what the filters decide about random calls with what a
// small interpreter of Istio's documentation does, by random policies.
func TestFiltersDecideAsDocumented(t *testing.T) {
	outcomes := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		policies := rapid.SliceOfN(rapid.Custom(drawPolicy), 1, 3).Draw(t, "policies")
		c := drawCall(t)
		in := authz.Input{
			Policies:     model.NewInterner[authz.Policy]().List(policies),
			TrustDomains: model.NewInterner[string]().List([]string{"cluster.local"}),
		}
		want := documented(policies, c)
		outcomes[want]++
		require.Equal(t, want, allowed(t, in, c), "%s\n%+v", shown(policies), c)
		if !c.http && authz.RefusesConnections(in) {
			require.False(t, want, "a connection that is closed at once would be let in")
		}
	})
	require.NotZero(t, outcomes[true])
	require.NotZero(t, outcomes[false])
}

// documented decides as the documentation says: DENY first, then ALLOW, if there is any.
func documented(policies []authz.Policy, c call) bool {
	anyAllow, allow := false, false
	for _, p := range policies {
		if p.DryRun {
			continue
		}
		matches := p.Rules != nil && slices.ContainsFunc(p.Rules.List, func(r model.AuthorizationRule) bool {
			return c.matches(r, p.Action == model.AuthorizationAllow)
		})
		switch p.Action {
		case model.AuthorizationDeny:
			if matches {
				return false
			}
		case model.AuthorizationAllow:
			anyAllow, allow = true, allow || matches
		}
	}
	return allow || !anyAllow
}

// matches reports whether a rule matches. Conditions on requests cannot be evaluated on other
// connections: an ALLOW does not match by them, and a DENY goes without them.
func (c call) matches(r model.AuthorizationRule, allows bool) bool {
	lists := slices.Concat(r.From, r.To, []model.AuthorizationConditions{r.When})
	for _, c2 := range slices.Concat(lists...) {
		if c2.Attribute.IsHTTP() && !c.http && allows {
			return false
		}
	}
	all := func(list model.AuthorizationConditions) bool {
		return !slices.ContainsFunc(list, func(k model.AuthorizationCondition) bool { return !c.meets(k) })
	}
	one := func(lists []model.AuthorizationConditions) bool {
		return len(lists) == 0 || slices.ContainsFunc(lists, all)
	}
	return one(r.From) && one(r.To) && all(r.When)
}

func (c call) meets(k model.AuthorizationCondition) bool {
	if k.Attribute.IsHTTP() && !c.http {
		return true
	}
	has := func(values []string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return c.hasValue(k, v) })
	}
	return (len(k.Values) == 0 || has(k.Values)) && !has(k.NotValues)
}

func (c call) hasValue(k model.AuthorizationCondition, pattern string) bool {
	parts := strings.Split(c.identity, "/") // spiffe://domain/ns/x/sa/y
	if len(parts) < 7 {
		parts = make([]string, 7)
	}
	known := c.identity != ""
	switch k.Attribute {
	case model.SourcePrincipal:
		return known && glob(pattern, strings.TrimPrefix(c.identity, "spiffe://"))
	case model.SourceNamespace:
		return known && glob(pattern, parts[4])
	case model.SourceServiceAccount:
		return known && pattern == parts[4]+"/"+parts[6]
	case model.SourceTrustDomain:
		return known && glob(pattern, parts[2])
	case model.SourceIP:
		return netip.MustParsePrefix(pattern).Contains(c.source)
	case model.RemoteIP:
		return netip.MustParsePrefix(pattern).Contains(c.remote)
	case model.DestinationIP:
		return netip.MustParsePrefix(pattern).Contains(c.destination)
	case model.DestinationPort:
		return pattern == c.port
	case model.ConnectionSNI:
		return glob(pattern, c.sni)
	case model.RequestHost:
		return glob(strings.ToLower(pattern), strings.ToLower(c.host))
	case model.RequestMethod:
		return glob(pattern, c.method)
	case model.RequestPath:
		if strings.Contains(pattern, "{") {
			return segmentsMatch(strings.Split(pattern, "/"), strings.Split(c.path, "/"))
		}
		return glob(pattern, c.path)
	default: // RequestHeader
		value, set := c.headers[k.Path[0]]
		return set && glob(pattern, value)
	}
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

// valuesOf are values of an attribute, some of which the drawn calls have.
func valuesOf(a model.AuthorizationAttribute) []string {
	return map[model.AuthorizationAttribute][]string{
		model.SourcePrincipal:      {"*", "cluster.local/ns/a/sa/x", "*/sa/x", "cluster.local/ns/b/*", "other"},
		model.SourceNamespace:      {"*", "a", "b", "a*"},
		model.SourceServiceAccount: {"a/x", "b/y"},
		model.SourceTrustDomain:    {"*", "cluster.local", "*.test"},
		model.SourceIP:             {"10.0.0.0/8", "10.0.0.1/32", "192.168.0.0/16"},
		model.RemoteIP:             {"10.0.0.0/8", "10.0.0.1/32"},
		model.DestinationIP:        {"10.0.0.0/8", "10.0.0.9/32"},
		model.DestinationPort:      {"80", "443"},
		model.ConnectionSNI:        {"*", "a.test", "*.test"},
		model.RequestHost:          {"*", "a.test", "A.*", "*.TEST"},
		model.RequestMethod:        {"*", "GET", "P*"},
		model.RequestPath:          {"*", "/a", "/a*", "*/b", "/a/{*}"},
		model.RequestHeader:        {"*", "v", "v*", "*w"},
	}[a]
}

// Attributes by where they may stand in a rule.
const (
	firstOfSource, lastOfSource       = model.SourcePrincipal, model.RemoteIP
	firstOfOperation, lastOfOperation = model.RequestHost, model.RequestPath
	firstOfWhen, lastOfWhen           = model.SourcePrincipal, model.ConnectionSNI
)

// conditionsOn draws conditions on attributes between two.
func conditionsOn(first, last model.AuthorizationAttribute) *rapid.Generator[model.AuthorizationConditions] {
	var attributes []model.AuthorizationAttribute
	for a := first; a <= last; a++ {
		if valuesOf(a) != nil {
			attributes = append(attributes, a)
		}
	}
	one := rapid.Custom(func(t *rapid.T) model.AuthorizationCondition {
		k := model.AuthorizationCondition{Attribute: rapid.SampledFrom(attributes).Draw(t, "attribute")}
		values := rapid.SampledFrom(valuesOf(k.Attribute))
		k.Values = rapid.SliceOfN(values, 0, 2).Draw(t, "values")
		k.NotValues = rapid.SliceOfN(values, 0, 2).Draw(t, "not values")
		if len(k.Values)+len(k.NotValues) == 0 {
			k.Values = []string{values.Draw(t, "value")}
		}
		if k.Attribute == model.RequestHeader {
			k.Path = []string{"h"}
		}
		return k
	})
	return rapid.Custom(func(t *rapid.T) model.AuthorizationConditions {
		return rapid.SliceOfN(one, 0, 2).Draw(t, "conditions")
	})
}

func drawPolicy(t *rapid.T) authz.Policy {
	from, to := conditionsOn(firstOfSource, lastOfSource), conditionsOn(firstOfOperation, lastOfOperation)
	when := conditionsOn(firstOfWhen, lastOfWhen)
	p := authz.Policy{
		Namespace: "n", Name: fmt.Sprint(rapid.IntRange(0, 1<<30).Draw(t, "name")), Rules: &model.AuthorizationRules{},
		Action: rapid.SampledFrom([]model.AuthorizationAction{
			model.AuthorizationAllow, model.AuthorizationAllow, model.AuthorizationDeny, model.AuthorizationAudit,
		}).Draw(t, "action"),
		DryRun: rapid.IntRange(0, 5).Draw(t, "dry run") == 0,
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "rules") {
		p.Rules.List = append(p.Rules.List, model.AuthorizationRule{
			Index: i, From: rapid.SliceOfN(from, 0, 2).Draw(t, "from"),
			To: rapid.SliceOfN(to, 0, 2).Draw(t, "to"), When: when.Draw(t, "when"),
		})
	}
	return p
}

func drawCall(t *rapid.T) call {
	one := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "value") }
	c := call{
		http: rapid.Bool().Draw(t, "http"),
		identity: one("", "spiffe://cluster.local/ns/a/sa/x", "spiffe://cluster.local/ns/b/sa/y",
			"spiffe://old.test/ns/ab/sa/x"),
		source:      netip.MustParseAddr(one("10.0.0.1", "192.168.1.1")),
		remote:      netip.MustParseAddr(one("10.0.0.1", "1.2.3.4")),
		destination: netip.MustParseAddr(one("10.0.0.9", "127.0.0.1")),
		port:        one("80", "443", "8080"), sni: one("", "a.test", "b.test"), headers: map[string]string{},
	}
	if c.http {
		c.host, c.method = one("a.test", "b.example"), one("GET", "POST")
		c.path = one("/a", "/ab", "/a/b", "/a/b/c", "/")
		if rapid.Bool().Draw(t, "a header") {
			c.headers["h"] = one("v", "vw", "x")
		}
	}
	return c
}

func shown(policies []authz.Policy) string {
	var b strings.Builder
	for _, p := range policies {
		fmt.Fprintf(&b, "%s dry=%t %+v\n", p.Action, p.DryRun, p.Rules.List)
	}
	return b.String()
}
