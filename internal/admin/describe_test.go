package admin

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

func selecting(labels model.Labels) model.Selection { return model.Selection{Selector: labels} }

// TestDescribe: a Pod with the policies of its namespace, of the mesh and of its labels, and a
// service with what says something about its host; not what is about others.
func TestDescribe(t *testing.T) {
	web := model.LabelsOf(map[string]string{"app": "web"})
	other := model.LabelsOf(map[string]string{"app": "other"})
	meta := func(kind kinds.Kind, namespace, name string) model.Meta {
		return model.Meta{Kind: kind, Namespace: namespace, Name: name}
	}
	update := func(m model.Meta, o model.Object) state.Update {
		return state.Update{Key: m.Key(), Objects: []model.Object{o}}
	}
	host := model.Host("web.shop.svc.cluster.local")
	pod := meta(kinds.Pod, "shop", "web-0")
	svc, rule := meta(kinds.Service, "shop", "web"), meta(kinds.DestinationRule, "shop", "web")
	route, foreign := meta(kinds.VirtualService, "shop", "web"), meta(kinds.DestinationRule, "shop", "foreign")
	strict := meta(kinds.PeerAuthentication, "istio-system", "strict")
	port := meta(kinds.PeerAuthentication, "shop", "port")
	deny, lax := meta(kinds.AuthorizationPolicy, "shop", "deny"), meta(kinds.AuthorizationPolicy, "shop", "other")
	slow := meta(kinds.RateLimit, "shop", "slow")
	w := state.NewWriter()
	mesh := model.DefaultMesh()
	snapshot, _ := w.Apply([]state.Update{
		update(meta(kinds.ConfigMap, "istio-system", "istio"), &mesh),
		update(pod, &model.Workload{Meta: pod, Labels: web, ServiceAccount: "web", Addresses: []string{"10.0.0.1"}}),
		update(svc, &model.Service{Meta: svc, Host: host, Selector: web, ExportTo: model.Exports{All: true},
			Ports: []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP, Target: 8080}}}),
		update(rule, &model.DestinationRule{Meta: rule, Host: "*.shop.svc.cluster.local"}),
		update(foreign, &model.DestinationRule{Meta: foreign, Host: "a.example.com"}),
		update(route, &model.VirtualService{Meta: route, Hosts: []model.Host{host}, Gateways: []string{model.Mesh}}),
		update(strict, &model.PeerAuthentication{Meta: strict, Mode: model.MTLSStrict}),
		update(port, &model.PeerAuthentication{Meta: port, Selector: web, Ports: []model.PortMTLS{
			{Port: 9000, Mode: model.MTLSDisable},
		}}),
		update(deny, &model.AuthorizationPolicy{Meta: deny, Selection: selecting(web), Action: model.AuthorizationDeny,
			Rules: &model.AuthorizationRules{}}),
		update(slow, &model.EnvoyFilter{Meta: slow, Selection: selecting(web), Says: "2 per day"}),
		update(lax, &model.AuthorizationPolicy{
			Meta: lax, Selection: selecting(other), Rules: &model.AuthorizationRules{},
		}),
	})
	p := MeshOf(snapshot, source.Problem{Object: rule.Key(), Message: "is odd"},
		source.Problem{Object: foreign.Key(), Message: "is of no concern"})
	ask := func(kind, name string) (*page.Description, error) {
		answer, err := p.describe(page.ObjectQuestion{Kind: kind, Namespace: "shop", Name: name}.Query())
		d, _ := answer.(*page.Description)
		return d, err
	}

	d, err := ask("pod", "web-0")
	require.NoError(t, err)
	require.Equal(t, page.StrictMutualTLS, d.MutualTLS)
	require.Equal(t, map[uint16]page.MutualTLS{9000: page.DisabledMutualTLS}, d.MutualTLSPorts)
	require.Equal(t, []page.DescribedObject{
		{Kind: "PeerAuthentication", Namespace: "shop", Name: "port"},
		{Kind: "PeerAuthentication", Namespace: "istio-system", Name: "strict"},
		{Kind: "AuthorizationPolicy", Namespace: "shop", Name: "deny", How: "DENY"},
		{Kind: "RateLimit", Namespace: "shop", Name: "slow", How: "2 per day"},
	}, d.Applied)
	require.Len(t, d.Services, 1)
	require.Equal(t, []string{"warning: DestinationRule shop/web: is odd"}, d.Problems)

	d, err = ask("service", "web")
	require.NoError(t, err)
	require.Equal(t, page.StrictMutualTLS, d.MutualTLS)
	require.Equal(t, []page.DescribedPort{{Name: "http", Port: 80, Protocol: "HTTP", Target: "8080"}}, d.Ports)
	require.Equal(t, []page.DescribedObject{
		{Kind: "VirtualService", Namespace: "shop", Name: "web", How: "for callers in the mesh"},
		{Kind: "DestinationRule", Namespace: "shop", Name: "web", How: "for *.shop.svc.cluster.local"},
	}, d.Applied)

	_, err = ask("pod", "nobody")
	require.ErrorIs(t, err, errNotDescribed)
	require.ErrorContains(t, err, "want one of web-0")
	d, err = ask("pod", "we")
	require.NoError(t, err, "a part of one name")
	require.Equal(t, "web-0", d.Name)
	d, err = ask("service", string(host))
	require.NoError(t, err)
	require.Equal(t, "web", d.Name)
	_, err = ask("node", "x")
	require.ErrorContains(t, err, "want pod or service")
}

// TestAuthorizePage: what is asked for by a Pod's name, or by how the names of Pods with equal
// policies begin; with the problems of their policies.
func TestAuthorizePage(t *testing.T) {
	meta := func(kind kinds.Kind, name string) model.Meta {
		return model.Meta{Kind: kind, Namespace: "shop", Name: name}
	}
	var updates []state.Update
	add := func(m model.Meta, o model.Object) {
		updates = append(updates, state.Update{Key: m.Key(), Objects: []model.Object{o}})
	}
	mesh := model.DefaultMesh()
	add(model.Meta{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"}, &mesh)
	for _, name := range []string{"web-1", "web-2", "web-x"} {
		m, app := meta(kinds.Pod, name), "web"
		if name == "web-x" {
			app = "x"
		}
		add(m, &model.Workload{Meta: m, Labels: model.LabelsOf(map[string]string{"app": app})})
	}
	allow := meta(kinds.AuthorizationPolicy, "allow")
	add(allow, &model.AuthorizationPolicy{
		Meta: allow, Selection: selecting(model.LabelsOf(map[string]string{"app": "x"})),
		Rules: &model.AuthorizationRules{List: []model.AuthorizationRule{{When: model.AuthorizationConditions{
			{Attribute: model.SourceServiceAccount, Values: []string{"ops/tool"}},
		}}}},
	})
	snapshot, _ := state.NewWriter().Apply(updates)
	p := MeshOf(snapshot, source.Problem{Object: allow.Key(), Message: "is odd"})
	ask := func(workload, from string) (*page.AuthzAnswer, error) {
		answer, err := p.authorize(url.Values{
			"namespace": {"shop"}, "workload": {workload}, "call": {`{"identity": "` + from + `", "method": "GET"}`},
		})
		a, _ := answer.(*page.AuthzAnswer)
		return a, err
	}
	a, err := ask("web-x", "ops/tool")
	require.NoError(t, err)
	require.Equal(t, policy.Allowed, a.Outcome)
	require.Equal(t, []string{"warning: AuthorizationPolicy shop/allow: is odd"}, a.Problems)
	a, err = ask("web-x", "shop/tool")
	require.NoError(t, err)
	require.Equal(t, policy.Denied, a.Outcome)
	_, err = ask("web", "ops/tool")
	require.ErrorContains(t, err, `"web" fits Pods with different policies, as web-1 and web-x`)
	_, err = ask("nobody", "ops/tool")
	require.ErrorIs(t, err, errNotDescribed)
	a, err = ask("web-1", "")
	require.NoError(t, err)
	require.Equal(t, policy.Allowed, a.Outcome)
	require.Empty(t, a.Problems)
}

// TestThePageOfPoliciesHasThoseWithoutRules: one without rules allows nothing.
func TestThePageOfPoliciesHasThoseWithoutRules(t *testing.T) {
	m := model.Meta{Kind: kinds.AuthorizationPolicy, Namespace: "shop", Name: "nothing"}
	snapshot, _ := state.NewWriter().Apply([]state.Update{{Key: m.Key(), Objects: []model.Object{
		&model.AuthorizationPolicy{Meta: m, Selection: model.Selection{Gateways: []string{"g"}}},
	}}})
	text, err := json.Marshal(policyPages(snapshot))
	require.NoError(t, err)
	require.Contains(t, string(text), `"name":"nothing","gateways":["g"],"action":"ALLOW","rules":null`)
}
