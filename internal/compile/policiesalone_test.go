package compile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// One part of a policy changes alone.
func TestOnePartOfAPolicyChanges(t *testing.T) {
	for name, lives := range map[string][2][]model.Object{
		"its namespace":                 {policyOf("istio-system"), policyOf("default")},
		"the Gateway it is attached to": {attachedPolicy("gw"), attachedPolicy("other")},
		"its provider":                  {askedOf("a.com"), askedOf("b.com")},
		"the issuer of its tokens":      {tokensBy(ruleBy("a"), false), tokensBy(ruleBy("b"), false)},
		"that it cannot be read":        {tokensBy(ruleBy("a"), false), tokensBy(ruleBy("a"), true)},
		"the keys that were fetched":    {fetchedKeys("AAAA"), fetchedKeys("BBBB")},
		"whether they were, likewise":   {fetchedKeys("AAAA"), fetchedKeys("")},
	} {
		t.Run(name, func(t *testing.T) {
			requireFollows(t, gatewayProxy(), [][]model.Object{lives[0], lives[1], lives[0]})
		})
	}
}

// A policy beside that of an authorizer comes and goes in the resource, and changes no listener.
func TestAPolicyBesideAnAuthorizerChangesNoListener(t *testing.T) {
	p := gatewayProxy()
	p.Settings.FiltersApart = true
	beside := func(selector model.Labels) []model.Object {
		objects := append(askedOf("a.com"), &model.AuthorizationPolicy{
			Meta: aloneMeta(kinds.AuthorizationPolicy, "deny"), Selection: model.Selection{Selector: selector},
			Rules: everyCall, Action: model.AuthorizationDeny,
		})
		objects[2].(*model.AuthorizationPolicy).Selector = gatewayLabels
		return objects
	}
	another := model.LabelsOf(map[string]string{"app": "another"})
	requireFollows(t, p, [][]model.Object{beside(another), beside(gatewayLabels), beside(another)})
	of := func(selector model.Labels, typ resource.Type) resource.Version {
		w := state.NewWriter()
		w.Apply(updatesOf(beside(selector)))
		return placeIn(t, w.Snapshot(), p).state.Sets()[typ].Root()
	}
	require.Equal(t, of(another, resource.Listener), of(gatewayLabels, resource.Listener))
	require.NotEqual(t, of(another, resource.Filter), of(gatewayLabels, resource.Filter))
}

// An alias of the trust domain changes alone, where a policy that comes beside the listeners names
// a principal.
func TestAnAliasOfTheTrustDomainChanges(t *testing.T) {
	p := gatewayProxy()
	p.Settings.FiltersApart = true
	requireFollowsUpdates(t, p, [][]state.Update{
		withAlias("old.test"), withAlias("older.test"), withAlias("old.test"),
	})
}

func withAlias(alias string) []state.Update {
	g, v := aloneGateway(80, model.HTTP)
	mesh := model.DefaultMesh()
	mesh.TrustDomainAliases = []string{alias}
	principal := model.AuthorizationCondition{
		Attribute: model.SourcePrincipal, Values: []string{mesh.TrustDomain + "/ns/a/sa/b"},
	}
	rule := model.AuthorizationRule{From: []model.AuthorizationConditions{{principal}}}
	policy := &model.AuthorizationPolicy{
		Meta: aloneMeta(kinds.AuthorizationPolicy, "p"), Selection: model.Selection{Selector: gatewayLabels},
		Rules: &model.AuthorizationRules{List: []model.AuthorizationRule{rule}},
	}
	return append(updatesOf([]model.Object{g, v, policy}), state.Update{
		Key:     source.Key{Kind: kinds.ConfigMap, Namespace: mesh.RootNamespace, Name: "istio"},
		Objects: []model.Object{&mesh},
	})
}

// policyOf has two policies of one name, of which one selects the gateway: that of a namespace.
func policyOf(namespace string) []model.Object {
	g, v := aloneGateway(80, model.HTTP)
	objects := []model.Object{g, v}
	for _, of := range []string{"istio-system", "default"} {
		p := &model.AuthorizationPolicy{
			Meta:      model.Meta{Kind: kinds.AuthorizationPolicy, Namespace: of, Name: "p"},
			Selection: model.Selection{Selector: model.LabelsOf(map[string]string{"app": "another"})},
			Rules:     everyCall,
		}
		if of == namespace {
			p.Selector = gatewayLabels
		}
		objects = append(objects, p)
	}
	return objects
}

// attachedPolicy is for the workloads of a Gateway of the Gateway API.
func attachedPolicy(gateway string) []model.Object {
	g, v := aloneGateway(80, model.HTTP)
	return []model.Object{g, v, &model.AuthorizationPolicy{
		Meta: aloneMeta(kinds.AuthorizationPolicy, "p"), Selection: model.Selection{Gateways: []string{gateway}},
	}}
}

var everyCall = &model.AuthorizationRules{List: []model.AuthorizationRule{{}}}

func askedOf(host model.Host) []model.Object {
	g, v := aloneGateway(80, model.HTTP)
	return []model.Object{g, v, &model.AuthorizationPolicy{
		Meta: aloneMeta(kinds.AuthorizationPolicy, "p"), Rules: everyCall, Action: model.AuthorizationCustom,
		Provider: &model.ExtAuthz{Name: "opa", Host: host, Port: 80},
	}}
}

func ruleBy(issuer string) *model.TokenRule {
	return &model.TokenRule{Issuer: issuer, Keys: `{"keys":[{"kty":"oct","k":"AAAA"}]}`}
}

func tokensBy(rule *model.TokenRule, closed bool) []model.Object {
	g, v := aloneGateway(80, model.HTTP)
	return []model.Object{g, v, &model.RequestAuthentication{
		Meta: aloneMeta(kinds.RequestAuthentication, "p"), Rules: []*model.TokenRule{rule}, Closed: closed,
	}}
}

// fetchedKeys has a policy whose keys are fetched, and what was fetched; empty for nothing.
func fetchedKeys(key string) []model.Object {
	const uri = "https://a.test/keys"
	set := &model.KeySet{Meta: aloneMeta(kinds.ConfigMap, "keys"), URI: uri, Error: "does not answer"}
	if key != "" {
		set.Error, set.Keys = "", `{"keys":[{"kty":"oct","k":"`+key+`"}]}`
	}
	return append(tokensBy(&model.TokenRule{Issuer: "a", KeysFrom: uri}, false), set)
}
