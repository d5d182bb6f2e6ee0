package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// One part of a policy changes alone.
func TestOnePartOfAPolicyChanges(t *testing.T) {
	for name, lives := range map[string][2][]model.Object{
		"its namespace":               {policyOf("istio-system"), policyOf("default")},
		"its provider":                {askedOf("a.com"), askedOf("b.com")},
		"the issuer of its tokens":    {tokensBy(ruleBy("a"), false), tokensBy(ruleBy("b"), false)},
		"that it cannot be read":      {tokensBy(ruleBy("a"), false), tokensBy(ruleBy("a"), true)},
		"the keys that were fetched":  {fetchedKeys("AAAA"), fetchedKeys("BBBB")},
		"whether they were, likewise": {fetchedKeys("AAAA"), fetchedKeys("")},
	} {
		t.Run(name, func(t *testing.T) {
			requireFollows(t, gatewayProxy(), [][]model.Object{lives[0], lives[1], lives[0]})
		})
	}
}

// policyOf has two policies of one name, of which one selects the gateway: that of a namespace.
func policyOf(namespace string) []model.Object {
	g, v := aloneGateway(80, model.HTTP)
	objects := []model.Object{g, v}
	for _, of := range []string{"istio-system", "default"} {
		p := &model.AuthorizationPolicy{
			Meta:     model.Meta{Kind: kinds.AuthorizationPolicy, Namespace: of, Name: "p"},
			Selector: model.LabelsOf(map[string]string{"app": "another"}),
			Rules:    everyCall,
		}
		if of == namespace {
			p.Selector = gatewayLabels
		}
		objects = append(objects, p)
	}
	return objects
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
