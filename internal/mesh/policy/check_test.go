package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
)

const ops = "spiffe://cluster.local/ns/ops/sa/tool"

func meta(kind kinds.Kind, namespace, name string) model.Meta {
	return model.Meta{Kind: kind, Namespace: namespace, Name: name}
}

// condition is one on an attribute.
func condition(of model.AuthorizationAttribute, values ...string) model.AuthorizationConditions {
	return model.AuthorizationConditions{{Attribute: of, Values: values}}
}

// when is a policy of shop with a rule for each list of conditions.
func when(name string, action model.AuthorizationAction, rules ...model.AuthorizationConditions,
) *model.AuthorizationPolicy {
	p := &model.AuthorizationPolicy{
		Meta: meta(kinds.AuthorizationPolicy, "shop", name), Action: action, Rules: &model.AuthorizationRules{},
	}
	for i, rule := range rules {
		p.Rules.List = append(p.Rules.List, model.AuthorizationRule{Index: i, When: rule})
	}
	return p
}

func web() policy.Workload {
	return policy.Workload{
		Namespace: "shop", Labels: model.LabelsOf(map[string]string{"app": "web"}), Mesh: model.DefaultMesh(),
	}
}

// TestCheckSaysWhyEachRuleFails: the rule that decides, and of the others the first condition that
// the call does not meet, with what it has instead.
func TestCheckSaysWhyEachRuleFails(t *testing.T) {
	w := web()
	elsewhere := when("other", model.AuthorizationDeny, nil)
	elsewhere.Selector = model.LabelsOf(map[string]string{"app": "other"})
	dry := when("dry", model.AuthorizationDeny, nil)
	dry.DryRun = true
	allow := when("allow", model.AuthorizationAllow)
	allow.Rules.List = []model.AuthorizationRule{{
		Index: 3,
		From: []model.AuthorizationConditions{
			condition(model.SourceNamespace, "shop"), condition(model.SourceIP, "10.0.0.0/8"),
		},
	}}
	w.Policies = []*model.AuthorizationPolicy{
		allow, dry, elsewhere,
		when("deny", model.AuthorizationDeny,
			condition(model.RequestMethod, "POST"), condition(model.RequestPath, "/admin*")),
	}
	r := policy.Check(w, policy.Call{Identity: ops, Method: "GET", Path: "/x/../admin/a"})
	require.Equal(t, policy.Denied, r.Outcome)
	require.Equal(t, 403, r.Status)
	require.Equal(t, "denied (403) by AuthorizationPolicy shop/deny: rule 1 matches", r.String())
	require.Equal(t, []string{`the path is compared as "/admin/a" (pathNormalization)`}, r.Notes)
	require.Equal(t, []string{"source.ip"}, r.NotGiven)
	require.Len(t, r.Policies, 4)
	require.Equal(t, "app=other", r.Policies[3].NotFor)
	require.True(t, r.Policies[1].Matches, "a dry run is shown")
	why := r.Policies[0].Rules[0].Failed
	require.Len(t, why, 2, "the first condition of each alternative")
	require.Equal(t, `from[0].source.namespaces: want "shop", is "ops"`, why[0].String())
	require.Equal(t, `from[1].source.ipBlocks: want "10.0.0.0/8", is not given`, why[1].String())
	require.Equal(t, `when method values: want "POST", is "GET"`, r.Policies[2].Rules[0].Failed[0].String())

	r = policy.Check(w, policy.Call{Identity: ops, Method: "GET", Path: "/"})
	require.Equal(t, "denied (403): there are ALLOW policies for the workload, and none of them matches", r.String())
	r = policy.Check(w, policy.Call{Identity: "spiffe://cluster.local/ns/shop/sa/a", Method: "GET", Path: "/"})
	require.Equal(t, policy.Allowed, r.Outcome)
	require.Equal(t, 3, *r.By.Rule)
}

// TestCheckAsksProviders: unless something else refuses the call, or the provider cannot be asked
// about it.
func TestCheckAsksProviders(t *testing.T) {
	w := web()
	ask := when("ask", model.AuthorizationCustom, nil)
	ask.Provider = &model.ExtAuthz{Name: "ext"}
	w.Policies = []*model.AuthorizationPolicy{
		ask, when("deny", model.AuthorizationDeny, condition(model.RequestPath, "/x")),
	}
	r := policy.Check(w, policy.Call{Method: "GET", Path: "/"})
	require.Equal(t, policy.Asks, r.Outcome)
	require.Equal(t, []string{"ext"}, r.Providers)
	r = policy.Check(w, policy.Call{Method: "GET", Path: "/x"})
	require.Equal(t, policy.Denied, r.Outcome)
	require.Equal(t, "deny", r.By.Name)
	r = policy.Check(w, policy.Call{TCP: true})
	require.Equal(t, "denied (the connection is closed) by AuthorizationPolicy shop/ask: rule 0 matches", r.String())
}

// TestCheckKnowsMutualTLS: STRICT closes plaintext, and DISABLE leaves callers without an identity.
// A gateway's servers say themselves what they take.
func TestCheckKnowsMutualTLS(t *testing.T) {
	w := web()
	w.MTLS = model.MTLSStrict
	w.MTLSPolicy = &model.PeerAuthentication{Meta: meta(kinds.PeerAuthentication, "istio-system", "strict")}
	r := policy.Check(w, policy.Call{Method: "GET", Path: "/"})
	require.Equal(t,
		"denied (403) by PeerAuthentication istio-system/strict: mode STRICT refuses calls in plaintext", r.String())
	require.Equal(t, policy.Allowed, policy.Check(w, policy.Call{Identity: ops}).Outcome)
	w.Gateway = true
	require.Equal(t, policy.Allowed, policy.Check(w, policy.Call{}).Outcome)
	w.Gateway, w.MTLS = false, model.MTLSDisable
	w.Policies = []*model.AuthorizationPolicy{
		when("allow", model.AuthorizationAllow, condition(model.SourcePrincipal, "*")),
	}
	r = policy.Check(w, policy.Call{Identity: ops})
	require.Equal(t, policy.Denied, r.Outcome)
	require.Len(t, r.Notes, 1)
}

// TestCheckVerifiesTokens: by the rules of the workload's RequestAuthentications. Claims that
// nobody has verified do not count.
func TestCheckVerifiesTokens(t *testing.T) {
	ann := func(aud any) policy.Call {
		return policy.Call{Method: "GET", Path: "/", Claims: map[string]any{
			"iss": "https://a.test", "sub": "ann", "aud": aud, "scope": "read write",
		}}
	}
	needs := func(k model.AuthorizationConditions) []*model.AuthorizationPolicy {
		return []*model.AuthorizationPolicy{when("allow", model.AuthorizationAllow, k)}
	}
	scope := model.AuthorizationConditions{{
		Attribute: model.RequestClaim, Path: []string{"scope"}, Values: []string{"write"},
	}}
	rule := &model.TokenRule{Issuer: "https://a.test", Keys: "{}", Audiences: []string{"shop"}}
	tokens := func(rules ...*model.TokenRule) []*model.RequestAuthentication {
		return []*model.RequestAuthentication{{Meta: meta(kinds.RequestAuthentication, "shop", "t"), Rules: rules}}
	}
	unreadable := tokens()
	unreadable[0].Closed = true
	for _, c := range []struct {
		name     string
		tokens   []*model.RequestAuthentication
		policies []*model.AuthorizationPolicy
		call     policy.Call
		outcome  policy.Outcome
		status   int
	}{
		{
			"verified", tokens(rule), needs(condition(model.RequestPrincipal, "https://a.test/ann")), ann("shop"),
			policy.Allowed, 0,
		},
		{"a list of words", tokens(rule), needs(scope), ann("shop"), policy.Allowed, 0},
		{"one of several audiences", tokens(rule), nil, ann([]any{"x", "shop"}), policy.Allowed, 0},
		{"nobody verifies", nil, needs(condition(model.RequestPrincipal, "*")), ann("shop"), policy.Denied, 403},
		{"another audience", tokens(rule), nil, ann("other"), policy.Denied, 403},
		{"another issuer", tokens(&model.TokenRule{Issuer: "b", Keys: "{}"}), nil, ann("shop"), policy.Denied, 401},
		{"a mistake", tokens(&model.TokenRule{Issuer: "https://a.test"}), nil, ann("shop"), policy.Denied, 401},
		{
			"no keys", tokens(&model.TokenRule{Issuer: "https://a.test", KeysFrom: "u"}), nil, ann("shop"),
			policy.Denied, 401,
		},
		{"without a token", tokens(rule), nil, policy.Call{Method: "GET", Path: "/"}, policy.Allowed, 0},
		{"unreadable", unreadable, nil, policy.Call{Method: "GET", Path: "/"}, policy.Denied, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := web()
			w.Tokens, w.Policies = c.tokens, c.policies
			w.HasKeys = func(string) bool { return false }
			r := policy.Check(w, c.call)
			require.Equal(t, c.outcome, r.Outcome, r)
			require.Equal(t, c.status, r.Status, r)
		})
	}
}

// TestCheckNormalizesPaths as the table in docs/policies.md says.
func TestCheckNormalizesPaths(t *testing.T) {
	for _, c := range []struct {
		level model.PathNormalization
		path  string
		is    string
	}{
		{model.NormalizeNone, "/a/../b", "/a/../b"},
		{model.NormalizeNone, "/a?b=c", "/a"},
		{model.NormalizeBase, "/a/../b", "/b"},
		{model.NormalizeBase, "/a//b", "/a//b"},
		{model.NormalizeBase, "/a%2fb", "/a%2fb"},
		{model.NormalizeBase, "/%61/./b/..", "/a/"},
		{model.NormalizeBase, "/../../a", "/a"},
		{model.NormalizeBase, `/a\b%`, "/a/b%"},
		{model.NormalizeMergeSlashes, "/a//b", "/a/b"},
		{model.NormalizeMergeSlashes, "/a%2fb", "/a%2fb"},
		{model.NormalizeDecode, "/a%2Fb%5c/c", "/a/b/c"},
	} {
		w := web()
		w.Mesh.PathNormalization = c.level
		w.Policies = []*model.AuthorizationPolicy{
			when("a", model.AuthorizationAllow, condition(model.RequestPath, c.is)),
		}
		r := policy.Check(w, policy.Call{Method: "GET", Path: c.path})
		require.Equal(t, policy.Allowed, r.Outcome, "%v %s: %v", c.level, c.path, r.Policies)
	}
}
