package meshlife

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

func drawAuthorizationPolicy(t *rapid.T, m model.Meta) *model.AuthorizationPolicy {
	p := &model.AuthorizationPolicy{
		Meta: m, Selection: drawSelection(t), Rules: drawAuthorizationRules(t),
		Action: model.AuthorizationAction(rapid.IntRange(0, 3).Draw(t, "action")),
		DryRun: one(t, "dry run", false, false, true),
	}
	if p.Action == model.AuthorizationCustom {
		p.Provider = &model.ExtAuthz{
			Name: "opa", GRPC: rapid.Bool().Draw(t, "grpc"), Host: one(t, "host", hosts...), Port: 80,
		}
	}
	return p
}

// drawAuthorizationRules draws rules that match all calls, some, or none.
func drawAuthorizationRules(t *rapid.T) *model.AuthorizationRules {
	some := model.AuthorizationConditions{{
		Attribute: one(t, "attribute", model.SourcePrincipal, model.RequestPath),
		Values:    []string{one(t, "value", "/a", "/b")},
	}}
	return one(t, "rules", nil, &model.AuthorizationRules{List: []model.AuthorizationRule{{}}},
		&model.AuthorizationRules{List: []model.AuthorizationRule{{Index: 1, When: some}}})
}

func drawPeerAuthentication(t *rapid.T, m model.Meta) *model.PeerAuthentication {
	modes := []model.MTLSMode{
		model.MTLSUnset, model.MTLSDisable, model.MTLSDisable, model.MTLSPermissive, model.MTLSStrict,
	}
	p := &model.PeerAuthentication{Meta: m, Selector: drawPolicySelector(t), Mode: one(t, "mode", modes...)}
	if !p.Selector.IsEmpty() && rapid.Bool().Draw(t, "a port") {
		port := one(t, "port", ports...) + one[uint16](t, "target", 0, 1)
		p.Ports = []model.PortMTLS{{Port: port, Mode: one(t, "port's mode", modes...)}}
	}
	return p
}

func drawRequestAuthentication(t *rapid.T, m model.Meta) *model.RequestAuthentication {
	a := &model.RequestAuthentication{Meta: m, Selection: drawSelection(t), Closed: rarely(t, 4, "closed")}
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		r := &model.TokenRule{
			Issuer: one(t, "issuer", "https://a.test", "https://b.test"),
			Keys:   one(t, "keys", "", "", fetched[0]),
			Params: one(t, "params", nil, []string{"token"}),
		}
		if r.Keys == "" {
			r.KeysFrom = one(t, "keys from", keySets...)
		}
		a.Rules = append(a.Rules, r)
	}
	return a
}

// keySets are where keys are fetched, and fetched is what may be there.
var (
	keySets = []string{"https://a.test/keys", "https://b.test/keys"}
	fetched = []string{`{"keys":[{"kty":"oct","k":"AAAA"}]}`, `{"keys":[{"kty":"oct","k":"BBBB"}]}`}
)

// drawKeySets draws what has been fetched, of one address or of both.
func drawKeySets(t *rapid.T, m model.Meta) []model.Object {
	var list []model.Object
	for i := range rapid.IntRange(1, len(keySets)).Draw(t, "sets") {
		k := &model.KeySet{Meta: m, URI: keySets[i], Keys: one(t, "keys", "", fetched[0], fetched[1])}
		if k.Keys == "" {
			k.Error = "does not answer"
		}
		list = append(list, k)
	}
	return list
}

// drawSelection draws workloads by labels, by Gateways of the Gateway API, or, as after a mistake,
// by both.
func drawSelection(t *rapid.T) model.Selection {
	s := model.Selection{Selector: drawPolicySelector(t)}
	if rarely(t, 2, "attached") {
		s.Gateways = one(t, "gateways", []string{"g"}, []string{"g", "h"}, []string{"h"})
	}
	return s
}

func drawPolicySelector(t *rapid.T) model.Labels {
	return one(t, "selector", slices.Concat(labelSets, make([]model.Labels, 5))...)
}
