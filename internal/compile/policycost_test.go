package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// policedMeshOf is a mesh with a policy in each namespace that selects nobody, and a proxy that
// takes filters beside its listeners, with all kinds of policies.
type policedMeshOf struct {
	*meshOf
	labels model.Labels
}

func newPolicedMeshOf(t *testing.T) policedMeshOf {
	m := policedMeshOf{newMeshOf(t, 100), model.LabelsOf(map[string]string{"app": "policed"})}
	m.compiler.Join(Facts{Proxy: scope.Proxy{
		Address:   "127.0.0.3",
		Namespace: "ns7", Name: "policed", Labels: m.labels,
		Settings: scope.Settings{Intercepted: true, FiltersApart: true},
	}}, func(*Member, Placement) {})
	nobody := model.LabelsOf(map[string]string{"app": "nobody"})
	for i := range 1000 {
		m.apply(policyBy(fmt.Sprint("ns", i%namespaces), fmt.Sprint("policy", i), nobody, "a", "/a"))
	}
	m.apply(policyBy("ns7", "policy", m.labels, "a", "/a"), m.tokens("a"), keysOf("AAAA"))
	return m
}

func policyBy(namespace, name string, selector model.Labels, values ...string) state.Update {
	p := &model.AuthorizationPolicy{
		Meta:      model.Meta{Kind: kinds.AuthorizationPolicy, Namespace: namespace, Name: name},
		Selection: model.Selection{Selector: selector},
		Action:    model.AuthorizationDeny,
		Rules: &model.AuthorizationRules{List: []model.AuthorizationRule{{When: model.AuthorizationConditions{
			{Attribute: model.SourcePrincipal, Values: []string{"cluster.local/ns/" + values[0] + "/sa/x"}},
			{Attribute: model.RequestPath, Values: values[1:]},
		}}}},
	}
	return state.Update{Key: p.Key(), Objects: []model.Object{p}}
}

const keysAddress = "https://issuer.test/keys"

func (m policedMeshOf) tokens(issuer string) state.Update {
	a := &model.RequestAuthentication{
		Meta:      model.Meta{Kind: kinds.RequestAuthentication, Namespace: "ns7", Name: "tokens"},
		Selection: model.Selection{Selector: m.labels},
		Rules:     []*model.TokenRule{{Issuer: issuer, KeysFrom: keysAddress}},
	}
	return state.Update{Key: a.Key(), Objects: []model.Object{a}}
}

func keysOf(key string) state.Update {
	set := &model.KeySet{
		Meta: model.Meta{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "keys"}, URI: keysAddress,
		Keys: `{"keys":[{"kty":"oct","k":"` + key + `"}]}`,
	}
	return state.Update{Key: set.Key(), Objects: []model.Object{set}}
}

func aliasUpdate(alias string) state.Update {
	mesh := model.DefaultMesh()
	mesh.TrustDomainAliases = []string{alias}
	return state.Update{
		Key:     source.Key{Kind: kinds.ConfigMap, Namespace: mesh.RootNamespace, Name: "istio"},
		Objects: []model.Object{&mesh},
	}
}

// Policies about requests of a class that takes them beside its listeners are one resource: an edit
// of any kind translates and sends that alone, once, to those whose policies use what changed. One
// about callers also changes the filters of other connections, which are a part of the listener.
func TestAnEditOfAPolicyBesideTheListenersIsOneResource(t *testing.T) {
	m := newPolicedMeshOf(t)
	for _, c := range []struct {
		what string
		edit state.Update
		sent int
	}{
		{"paths", policyBy("ns7", "policy", m.labels, "a", "/b"), 1},
		{"callers", policyBy("ns7", "policy", m.labels, "b", "/b"), 2},
		{"a RequestAuthentication", m.tokens("b"), 1},
		{"the keys of an issuer", keysOf("BBBB"), 1},
	} {
		got := m.costOf(c.edit)
		got.hits = 0  // what is asked and found unchanged
		got.bytes = 0 // of all policies of the workload
		require.Equal(t, cost{misses: uint64(c.sent), changed: 1, upserts: c.sent}, got, c.what)
		require.Zero(t, m.costOf(c.edit).changed, "%s: the same again", c.what)
	}
	sent := 0
	before := m.filters()
	require.Equal(t, 1, m.costOf(aliasUpdate("old.test")).changed, "an alias changes who names a principal")
	resource.Diff(before, m.filters(), func(_, _ *resource.Resource) { sent++ })
	require.Equal(t, 1, sent)
}

// filters is the set of filters of the class that has any.
func (m policedMeshOf) filters() *resource.Set {
	var found *resource.Set
	for _, c := range m.compiler.classes {
		for _, v := range c.variants.list {
			if set := v.state.Set(resource.Filter); set.Len() > 0 {
				found = set
			}
		}
	}
	return found
}
