package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TestGatewaysWithPoliciesThatDoNotReachTheirWorkloadsStayClosed: what cannot be enforced is
// closed, as policies, Services and Gateways come, change and go.
func TestGatewaysWithPoliciesThatDoNotReachTheirWorkloadsStayClosed(t *testing.T) {
	w := NewWriter()
	service := func(namespace, label string) Update {
		m := model.Meta{Kind: kinds.Service, Namespace: namespace, Name: "s"}
		return Update{Key: m.Key(), Objects: []model.Object{&model.Service{
			Meta: m, Host: "s." + model.Host(namespace) + ".svc.cluster.local", ExportTo: model.Exports{All: true},
			Ports:    []model.ServicePort{{Name: "http", Port: 80}},
			Selector: model.LabelsOf(map[string]string{label: "x"}),
		}}}
	}
	gateway := func(address model.Host) Update {
		u := attachedMesh(0)[0]
		g := *u.Objects[0].(*model.KubernetesGateway)
		g.Service = address
		u.Objects = []model.Object{&g}
		return u
	}
	meta := model.Meta{Kind: kinds.AuthorizationPolicy, Namespace: "a", Name: "p"}
	selection := model.Selection{Gateways: []string{"x"}}
	policy := func(p model.AuthorizationPolicy) Update {
		p.Meta = meta
		return Update{Key: meta.Key(), Objects: []model.Object{&p}}
	}
	requireOpen := func(open bool, updates ...Update) {
		t.Helper()
		s, _ := w.Apply(updates)
		for g := range s.Gateways() {
			require.Equal(t, open, g.Servers[0].Broken == "", g.Servers[0].Broken)
		}
		status := s.GatewayAPIStatus(kinds.KubernetesGateway, "a", "x")
		require.Equal(t, open, status.Programmed.Status)
		require.Equal(t, open, status.Listeners[0].Programmed.Status)
		if !open {
			require.Contains(t, status.Listeners[0].Programmed.Message, "AuthorizationPolicy a/p")
		}
	}
	attached := policy(model.AuthorizationPolicy{Selection: selection})
	requireOpen(true, gateway("s.a.svc.cluster.local"), service("a", "app"))
	requireOpen(false, attached)
	requireOpen(true, service("a", model.GatewayNameLabel))
	requireOpen(false, service("a", "app"))
	requireOpen(true, policy(model.AuthorizationPolicy{Selection: selection, DryRun: true}))
	requireOpen(true, policy(model.AuthorizationPolicy{Selection: selection, Action: model.AuthorizationAudit}))
	requireOpen(true, policy(model.AuthorizationPolicy{Selection: model.Selection{
		Gateways: []string{"x"}, Selector: model.LabelsOf(map[string]string{"app": "x"}),
	}}))
	requireOpen(false, attached)
	requireOpen(false, gateway("s.b.svc.cluster.local"), service("b", model.GatewayNameLabel))
	requireOpen(true, Update{Key: meta.Key()})
	requireOpen(true, gateway("s.a.svc.cluster.local"), service("a", "app"))

	tokens := model.Meta{Kind: kinds.RequestAuthentication, Namespace: "a", Name: "t"}
	s, _ := w.Apply([]Update{{Key: tokens.Key(), Objects: []model.Object{&model.RequestAuthentication{
		Meta: tokens, Selection: selection,
	}}}})
	message := s.GatewayAPIStatus(kinds.KubernetesGateway, "a", "x").Listeners[0].Programmed.Message
	require.Contains(t, message, "RequestAuthentication a/t")
}
