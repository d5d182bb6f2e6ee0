package compile_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// FuzzPolicies takes manifests of policies to the listeners of the sidecar that they select, and a
// mistake that is put into the first AuthorizationPolicy. Nothing panics. The sidecar decides about
// calls as the interpreter of Istio's documentation does. The mistake opens nothing: what was
// refused without it stays refused.
func FuzzPolicies(f *testing.F) {
	for _, pattern := range []string{
		"../translate/authz/testdata/*.in.yaml", "../api/convert/testdata/authorization*.yaml",
		"../api/convert/testdata/tokens*.yaml", "../api/convert/testdata/policies.yaml",
	} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		require.NotEmpty(f, files, pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(data, "", uint16(0))
		}
	}
	for _, action := range []string{"ALLOW", "DENY", "CUSTOM"} {
		for _, mistake := range []string{"", "\x00", "/{x}/{**}/{*}", "10.0.0.0/99"} {
			for at := range placesOfASeed {
				f.Add(seedOf(action), mistake, uint16(at))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, mistake string, at uint16) {
		if len(data) > 1<<14 {
			t.Skip("long manifests find what short ones find")
		}
		objects := policiesIn(data)
		sound, problems := meshWith(objects)
		without := requireAsDocumented(t, sound)
		if problems > 0 || !putMistake(objects, mistake, int(at)) {
			return
		}
		broken, problems := meshWith(objects)
		with := requireAsDocumented(t, broken)
		if problems == 0 {
			return // it was none
		}
		for i, call := range callsToFuzz() {
			require.LessOrEqual(t, openness[with[i].Outcome], openness[without[i].Outcome],
				"%q opens what was refused: %+v\n%s\n%s", mistake, call, without[i], with[i])
		}
	})
}

// seed is a policy with each part of a rule. There are placesOfASeed places for a mistake.
const (
	placesOfASeed = 14 + 8 + 2 + 1
	seed          = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: shop}
spec:
  action: ACTION
  rules:
  - from: [{source: {namespaces: [shop, other]}}]
    to: [{operation: {methods: [GET, POST]}}]
    when: [{key: "request.headers[x-user]", values: [me, you]}]
`
)

// seedOf is the seed with an action.
func seedOf(action string) []byte {
	if action == "CUSTOM" {
		action += "\n  provider: {name: opa}"
	}
	return []byte(strings.ReplaceAll(seed, "ACTION", action))
}

// openness orders what may become of a call.
var openness = map[policy.Outcome]int{policy.Denied: 0, policy.Asks: 1, policy.Allowed: 2}

// policiesIn are the policies of manifests, each made to be for the workload of policedMesh.
func policiesIn(data []byte) (all []source.Change) {
	documents, _ := manifest.Read("in.yaml", data)
	for _, d := range documents {
		switch o := d.Object.(type) {
		case *securityv1.AuthorizationPolicy:
			o.Spec.Selector, o.Spec.TargetRef, o.Spec.TargetRefs = nil, nil, nil
		case *securityv1.RequestAuthentication:
			o.Spec.Selector, o.Spec.TargetRef, o.Spec.TargetRefs = nil, nil, nil
		case *securityv1.PeerAuthentication:
		default:
			continue
		}
		d.Key.Namespace = "shop"
		d.Object.SetNamespace(d.Key.Namespace)
		all = append(all, source.Change{Key: d.Key, Object: d.Object})
	}
	return all
}

// authorizer is the mesh configuration with one provider.
var authorizer = source.Change{
	Key: source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"},
	Object: &corev1.ConfigMap{Data: map[string]string{"mesh": `
extensionProviders:
- {name: opa, envoyExtAuthzGrpc: {service: opa.shop.svc.cluster.local, port: 9191}}
`}},
}

// meshWith is a mesh with objects, and how many problems these have.
func meshWith(objects []source.Change) (m policedMesh, problems int) {
	m = newPolicedMesh()
	converter, mesh := convert.New(convert.Options{}), model.DefaultMesh()
	updates := []state.Update{{Key: keyed(policedService), Objects: []model.Object{policedService}}}
	for _, c := range append([]source.Change{authorizer}, objects...) {
		result := converter.Convert(c, mesh)
		updates = append(updates, state.Update{Key: c.Key, Objects: result.Objects})
		for _, p := range result.Problems {
			if !strings.HasSuffix(p.Message, matchesNothing) {
				problems++
			}
		}
		for _, o := range result.Objects {
			switch o := o.(type) {
			case *model.MeshConfig:
				mesh = *o
			case *model.RequestAuthentication:
				m.tokens = append(m.tokens, o)
			}
		}
	}
	m.snapshot, m.delta = state.NewWriter().Apply(updates)
	return m, problems
}

// matchesNothing ends the warning of a value that is in force as written and that no call can have.
// It is no mistake that could open something: the policy never was about the call.
const matchesNothing = ", so it matches nothing"

// requireAsDocumented requires that the sidecar decides as documented, and returns what it decides.
func requireAsDocumented(t *testing.T, m policedMesh) (reports []policy.Report) {
	t.Helper()
	config := m.compiled(t)
	for _, call := range callsToFuzz() {
		want := policy.Check(m.workload(call.Port), call)
		got, err := config.Decide(call)
		require.NoError(t, err)
		require.Equal(t, want.Outcome, got.Outcome, "%+v\n%s %v\n%s %v\n%v", call, want, want.Policies, got,
			got.Policies, got.Notes)
		reports = append(reports, got)
	}
	return reports
}

// callsToFuzz are calls of which each differs in one thing from another.
func callsToFuzz() (all []policy.Call) {
	request := policy.Call{
		Identity: "spiffe://cluster.local/ns/shop/sa/web",
		Source:   netip.MustParseAddr("10.0.0.1"), Remote: netip.MustParseAddr("10.0.0.1"),
		Destination: netip.MustParseAddr("10.0.0.9"), Port: 8080,
		Host: "web", Method: "GET", Path: "/a", Headers: map[string]string{"x-user": "me"},
	}
	for _, change := range []func(c *policy.Call){
		func(*policy.Call) {},
		func(c *policy.Call) { c.Identity = "" },
		func(c *policy.Call) { c.Identity = "spiffe://other.test/ns/other/sa/b" },
		func(c *policy.Call) { c.Remote = netip.MustParseAddr("192.0.2.1") },
		func(c *policy.Call) { c.Source = netip.MustParseAddr("2001:db8::1") },
		func(c *policy.Call) { c.Host = "web.shop:80" },
		func(c *policy.Call) { c.Method = "POST" },
		func(c *policy.Call) { c.Path = "/admin/x" },
		func(c *policy.Call) { c.Headers = map[string]string{} },
		func(c *policy.Call) {
			c.Claims = map[string]any{"iss": "https://a.test", "sub": "me", "aud": []any{"web"}, "group": "x"}
		},
		func(c *policy.Call) { c.TCP, c.Port = true, 9000 },
		func(c *policy.Call) { c.TCP, c.Port, c.Identity = true, 9000, "" },
	} {
		c := request
		if change(&c); c.TCP {
			c.Host, c.Method, c.Path, c.Headers = "", "", "", nil
		}
		all = append(all, c)
	}
	return all
}

// putMistake puts a text into one place of the first AuthorizationPolicy. It is false if there is
// none.
func putMistake(objects []source.Change, text string, at int) bool {
	for i, c := range objects {
		before, is := c.Object.(*securityv1.AuthorizationPolicy)
		if !is {
			continue
		}
		var tree map[string]any
		document, err := json.Marshal(before)
		if err != nil || json.Unmarshal(document, &tree) != nil {
			return false
		}
		places := placesIn(tree)
		if len(places) == 0 {
			return false
		}
		places[at%len(places)](text)
		after := &securityv1.AuthorizationPolicy{}
		if document, err = json.Marshal(tree); err != nil || json.Unmarshal(document, after) != nil {
			return false
		}
		objects[i].Object = after
		return true
	}
	return false
}

// placesIn are where a rule may have another text: in place of the last of a list, as the only one
// of a list that is not there, or as the key of one condition more.
func placesIn(policy map[string]any) (all []func(text string)) {
	spec, _ := policy["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	list := func(of map[string]any, names ...string) {
		for _, name := range names {
			all = append(all, func(text string) {
				before, _ := of[name].([]any)
				of[name] = append(before[:max(0, len(before)-1)], text)
			})
		}
	}
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		for _, part := range []struct {
			of, in string
			names  []string
		}{{"from", "source", []string{
			"principals", "notPrincipals", "requestPrincipals", "notRequestPrincipals", "namespaces", "notNamespaces",
			"serviceAccounts", "notServiceAccounts", "trustDomains", "notTrustDomains", "ipBlocks", "notIpBlocks",
			"remoteIpBlocks", "notRemoteIpBlocks",
		}}, {"to", "operation", []string{
			"hosts", "notHosts", "methods", "notMethods", "paths", "notPaths", "ports", "notPorts",
		}}} {
			some, _ := rule[part.of].([]any)
			for _, s := range some {
				one, _ := s.(map[string]any)
				if fields, is := one[part.in].(map[string]any); is {
					list(fields, part.names...)
				}
			}
		}
		when, _ := rule["when"].([]any)
		for _, w := range when {
			if fields, is := w.(map[string]any); is {
				list(fields, "values", "notValues")
			}
		}
		all = append(all, func(text string) {
			rule["when"] = append(when, map[string]any{"key": text, "values": []any{"x"}})
		})
	}
	return all
}
