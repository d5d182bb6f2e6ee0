package authz_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
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
		report := documented(policies, []string{"cluster.local"}, c)
		want := report.Outcome == policy.Allowed
		outcomes[want]++
		require.Equal(t, want, allowed(t, in, c), "%s\n%+v\n%s", shown(policies), c, report)
		if !c.http && authz.RefusesConnections(in) {
			require.False(t, want, "a connection that is closed at once would be let in")
		}
	})
	require.NotZero(t, outcomes[true])
	require.NotZero(t, outcomes[false])
}

// documented decides as the documentation says.
func documented(policies []authz.Policy, trustDomains []string, c call) policy.Report {
	var all []*model.AuthorizationPolicy
	for _, p := range policies {
		all = append(all, &model.AuthorizationPolicy{
			Meta:   model.Meta{Namespace: p.Namespace, Name: p.Name},
			Action: p.Action, DryRun: p.DryRun, Provider: p.Provider, Rules: p.Rules,
		})
	}
	return policy.Decide(all, trustDomains, c.documented())
}

// documented is the call as the interpreter of the documentation has it.
func (c call) documented() policy.Call {
	port, _ := strconv.ParseUint(c.port, 10, 16)
	return policy.Call{
		TCP: !c.http, Identity: c.identity, Source: c.source, Remote: c.remote, Destination: c.destination,
		Port: uint16(port), SNI: c.sni, Host: c.host, Method: c.method, Path: c.path, Headers: c.headers,
	}
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
