package authz_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/testkit/draws"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
	"github.com/lateen-mesh/lateen/internal/translate/evaluate"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// TestFiltersDecideAsDocumented compares what the filters decide about random calls with what the
// interpreter of Istio's documentation does, by random policies, tokens and trust domains.
func TestFiltersDecideAsDocumented(t *testing.T) {
	draws.Checks(t, "1000") // so that each outcome occurs
	outcomes := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		c := drawCall(t)
		in := inputFor(w)
		want := policy.Check(w, c)
		got := evaluated(t, in, c)
		outcomes[string(want.Outcome)+strconv.Itoa(want.Status)]++
		require.Equal(t, want.Outcome, got.Outcome, "%s\n%+v\n%s\n%s", shown(w), c, want, got)
		require.Equal(t, clustersOf(want.Providers), clustersOf(got.Providers), "%s\n%+v", shown(w), c)
		require.Equal(t, want.Status, got.Status, "%s\n%+v\n%s\n%s", shown(w), c, want, got)
		if want.By == nil || want.By.Kind != string(kinds.RequestAuthentication) { // else the rest is not asked
			require.Equal(t, matchedRules(want), matchedRules(got), "%s\n%+v", shown(w), c)
		}
		if c.TCP && authz.RefusesConnections(in) {
			require.Equal(t, policy.Denied, want.Outcome, "a connection that is closed at once would be let in")
		}
	})
	for _, outcome := range []string{"allowed0", "asks0", "denied0", "denied401", "denied403"} {
		require.NotZero(t, outcomes[outcome], "%s: %v", outcome, outcomes)
	}
}

// matchedRules are the rules that match, without those of policies that never come to filters: dry
// runs of CUSTOM. A provider that cannot be asked makes its rules refuse.
func matchedRules(r policy.Report) (all []string) {
	for _, p := range r.Policies {
		if p.Action == "CUSTOM" {
			continue // asked below as providers, or among those that refuse
		}
		for _, rule := range p.Rules {
			if rule.Matches && !strings.HasPrefix(p.Name, "custom") {
				all = append(all, fmt.Sprint(p.Namespace, "/", p.Name, "/", rule.Index))
			}
		}
	}
	slices.Sort(all)
	return all
}

// inputFor is the input for the policies of a workload, all of which are for it.
func inputFor(w policy.Workload) authz.Input {
	var policies []authz.Policy
	for _, p := range w.Policies {
		policies = append(policies, authz.Policy{
			Namespace: p.Namespace, Name: p.Name,
			Action: p.Action, DryRun: p.DryRun, Provider: p.Provider, Rules: p.Rules,
		})
	}
	in := authz.Input{
		Policies: model.NewInterner[authz.Policy]().List(policies),
		TrustDomains: model.NewInterner[string]().List(
			append([]string{w.Mesh.TrustDomain}, w.Mesh.TrustDomainAliases...)),
	}
	var tokens []authz.Token
	for _, a := range w.Tokens {
		in.Closed = in.Closed || a.Closed
		for _, r := range a.Rules {
			tokens = append(tokens, authz.Token{Rule: r, Keys: r.Keys})
		}
	}
	in.Tokens = model.NewInterner[authz.Token]().List(tokens)
	return in
}

// evaluated says what the filters do with a call.
func evaluated(t require.TestingT, in authz.Input, c policy.Call) policy.Report {
	var filters []proto.Message
	add := func(config *anypb.Any) {
		m, err := config.UnmarshalNew()
		require.NoError(t, err)
		filters = append(filters, m)
	}
	if c.TCP {
		for _, f := range authz.TCP(in) {
			add(f.GetTypedConfig())
		}
	} else {
		for _, f := range authz.HTTP(in) {
			add(f.GetTypedConfig())
		}
	}
	report, err := evaluate.Decide(filters, c)
	require.NoError(t, err)
	return report
}

// valuesOf are values of an attribute, some of which the drawn calls have.
func valuesOf(a model.AuthorizationAttribute) []string {
	return map[model.AuthorizationAttribute][]string{
		model.SourcePrincipal: {
			"*", "cluster.local/ns/a/sa/x", "*/sa/x", "cluster.local/ns/b/*", "other",
			"old.test/ns/a/sa/x", "mesh.test/ns/b/sa/y", "*.test/ns/a/sa/x", "cluster.*/ns/a/sa/x",
		},
		model.SourceNamespace:      {"*", "a", "b", "a*"},
		model.SourceServiceAccount: {"a/x", "b/y"},
		model.SourceTrustDomain:    {"*", "cluster.local", "*.test", "old.test", "mesh.test"},
		model.SourceIP:             {"10.0.0.0/8", "10.0.0.1/32", "192.168.0.0/16"},
		model.RemoteIP:             {"10.0.0.0/8", "10.0.0.1/32"},
		model.RequestPrincipal:     {"*", "https://a.test/me", "https://a.test/*", "*/me", "b/you", "https:*", "*e"},
		model.RequestAudiences:     {"*", "shop", "s*", "other"},
		model.RequestPresenter:     {"*", "cli", "*i"},
		model.RequestClaim:         {"*", "staff", "a*", "read"},
		model.FilterMetadata:       {"*", "x", "[x]", "[y*]"},
		model.DestinationIP:        {"10.0.0.0/8", "10.0.0.9/32"},
		model.DestinationPort:      {"80", "443"},
		model.ConnectionSNI:        {"*", "a.test", "*.test"},
		model.RequestHost: {
			"*", "a.test", "A.*", "*.TEST", "a.test.", "a.test:*", "A.test:80", "*:80", "*.test.:80",
		},
		model.RequestMethod: {"*", "GET", "p*"},
		model.RequestPath:   {"*", "/a", "/a*", "*/b", "/a/{*}"},
		model.RequestHeader: {"*", "v", "v*", "*w"},
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
		switch k.Attribute {
		case model.RequestHeader:
			k.Path = []string{"h"}
		case model.RequestClaim:
			k.Path = rapid.SampledFrom([][]string{{"groups"}, {"realm", "role"}, {"scope"}}).Draw(t, "claim")
		case model.FilterMetadata:
			k.Path = []string{"envoy.filters.x", "k"}
		}
		return k
	})
	return rapid.Custom(func(t *rapid.T) model.AuthorizationConditions {
		return rapid.SliceOfN(one, 0, 2).Draw(t, "conditions")
	})
}

// drawWorkload draws the policies of a workload, all of which are for it.
func drawWorkload(t *rapid.T) policy.Workload {
	w := policy.Workload{Namespace: "n", Mesh: model.DefaultMesh()}
	w.Mesh.TrustDomain = rapid.SampledFrom([]string{"cluster.local", "mesh.test"}).Draw(t, "trust domain")
	w.Mesh.TrustDomainAliases = rapid.SampledFrom([][]string{
		nil, {"old.test"}, {"cluster.local", "old.test"},
	}).Draw(t, "aliases")
	w.Policies = rapid.SliceOfN(rapid.Custom(drawPolicy), 1, 3).Draw(t, "policies")
	for i, p := range w.Policies {
		p.Name += strconv.Itoa(i)
	}
	w.Tokens = rapid.SliceOfN(rapid.Custom(drawTokens), 0, 2).Draw(t, "tokens")
	return w
}

func drawTokens(t *rapid.T) *model.RequestAuthentication {
	a := &model.RequestAuthentication{
		Meta:   model.Meta{Kind: kinds.RequestAuthentication, Namespace: "n", Name: "tokens"},
		Closed: rapid.IntRange(0, 15).Draw(t, "closed") == 0,
	}
	one := rapid.Custom(func(t *rapid.T) *model.TokenRule {
		return &model.TokenRule{
			Issuer:     rapid.SampledFrom([]string{"https://a.test", "b"}).Draw(t, "issuer"),
			Keys:       rapid.SampledFrom([]string{"some", "some", ""}).Draw(t, "keys"),
			Audiences:  rapid.SampledFrom([][]string{nil, {"shop"}, {"https://other/"}}).Draw(t, "audiences"),
			ListClaims: rapid.SampledFrom([][]string{nil, {"groups"}}).Draw(t, "lists"),
		}
	})
	a.Rules = rapid.SliceOfNDistinct(one, 0, 2, func(r *model.TokenRule) string { return r.Issuer }).Draw(t, "rules")
	return a
}

// providers have names of which one is how the other begins.
var providers = []*model.ExtAuthz{
	{Name: "ext", Host: "http.test", Port: 80}, {Name: "ext-grpc", GRPC: true, Host: "grpc.test", Port: 80},
}

// clustersOf names authorizers by their clusters: one that is asked about every call is told by
// that alone.
func clustersOf(names []string) (clusters []string) {
	for _, name := range names {
		for _, p := range providers {
			if name == p.Name {
				name = pb.OutboundCluster(p.Host, p.Port, "")
			}
		}
		clusters = append(clusters, name)
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

func drawPolicy(t *rapid.T) *model.AuthorizationPolicy {
	from, to := conditionsOn(firstOfSource, lastOfSource), conditionsOn(firstOfOperation, lastOfOperation)
	when := conditionsOn(firstOfWhen, lastOfWhen)
	p := &model.AuthorizationPolicy{
		Meta:  model.Meta{Kind: kinds.AuthorizationPolicy, Namespace: "n", Name: "p"},
		Rules: &model.AuthorizationRules{},
		Action: rapid.SampledFrom([]model.AuthorizationAction{
			model.AuthorizationAllow, model.AuthorizationAllow, model.AuthorizationDeny, model.AuthorizationAudit,
			model.AuthorizationCustom, model.AuthorizationCustom,
		}).Draw(t, "action"),
		DryRun: rapid.IntRange(0, 5).Draw(t, "dry run") == 0,
	}
	if p.Action == model.AuthorizationCustom {
		p.Name, p.Provider = "custom", rapid.SampledFrom(providers).Draw(t, "provider")
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "rules") {
		p.Rules.List = append(p.Rules.List, model.AuthorizationRule{
			Index: i, From: rapid.SliceOfN(from, 0, 2).Draw(t, "from"),
			To: rapid.SliceOfN(to, 0, 2).Draw(t, "to"), When: when.Draw(t, "when"),
		})
	}
	return p
}

// hosts are those of the drawn calls.
var hosts = []string{
	"a.test", "A.test", "a.test.", "a.test:80", "a.test.:80", "a.test:8080", "a.test:", "b.example", "[::1]:80",
}

func drawCall(t *rapid.T) policy.Call {
	one := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "value") }
	c := policy.Call{
		TCP: rapid.IntRange(0, 2).Draw(t, "tcp") == 0,
		Identity: one("", "spiffe://cluster.local/ns/a/sa/x", "spiffe://cluster.local/ns/b/sa/y",
			"spiffe://old.test/ns/ab/sa/x", "spiffe://old.test/ns/a/sa/x", "spiffe://mesh.test/ns/b/sa/y"),
		Source:      netip.MustParseAddr(one("10.0.0.1", "192.168.1.1")),
		Remote:      netip.MustParseAddr(one("10.0.0.1", "1.2.3.4")),
		Destination: netip.MustParseAddr(one("10.0.0.9", "127.0.0.1")),
		Port:        rapid.SampledFrom([]uint16{80, 443, 8080}).Draw(t, "port"),
		SNI:         one("", "a.test", "b.test"),
		Headers:     map[string]string{},
	}
	c.Metadata = map[string]map[string]any{"envoy.filters.x": {}}
	if left := rapid.SampledFrom([]any{nil, "x", []any{"x", "yz"}}).Draw(t, "metadata"); left != nil {
		c.Metadata["envoy.filters.x"]["k"] = left
	}
	if c.TCP {
		return c
	}
	c.Host, c.Method = one(hosts...), one("GET", "POST", "get", "Post")
	c.Path = one("/a", "/ab", "/a/b", "/a/b/c", "/")
	if rapid.Bool().Draw(t, "a header") {
		c.Headers["h"] = one("v", "vw", "x")
	}
	if rapid.IntRange(0, 3).Draw(t, "a token") > 0 {
		c.Claims = drawClaims(t)
	}
	return c
}

func drawClaims(t *rapid.T) map[string]any {
	claims := map[string]any{}
	values := map[string][]any{
		"iss": {"https://a.test", "https://a.test", "b", "c", nil}, "sub": {"me", "you", nil},
		"aud": {"shop", []any{"x", "shop"}, "other", nil}, "azp": {"cli", nil},
		"groups": {"staff", []any{"b", "ab"}, "b ab", 7.0, nil}, "scope": {"read write", nil},
		"realm": {map[string]any{"role": "staff"}, map[string]any{"role": []any{"abc"}}, "role", nil},
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if v := rapid.SampledFrom(values[name]).Draw(t, name); v != nil {
			claims[name] = v
		}
	}
	return claims
}

func shown(w policy.Workload) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", w.Mesh.TrustDomain, w.Mesh.TrustDomainAliases)
	for _, p := range w.Policies {
		fmt.Fprintf(&b, "%s %s dry=%t %+v\n", p.Name, p.Action, p.DryRun, p.Rules.List)
	}
	for _, a := range w.Tokens {
		fmt.Fprintf(&b, "tokens closed=%t", a.Closed)
		for _, r := range a.Rules {
			fmt.Fprintf(&b, " %+v", *r)
		}
	}
	return b.String()
}
