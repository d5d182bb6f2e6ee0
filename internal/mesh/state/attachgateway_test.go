package state

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A Gateway whose Service waits for the address of its load balancer has none yet: not the host of
// the Service, which nobody finds from outside.
func TestGatewayHasTheAddressesOfItsLoadBalancer(t *testing.T) {
	accepted := model.Condition{Status: true, Reason: "Accepted"}
	g := &model.KubernetesGateway{
		Meta: model.Meta{Kind: kinds.KubernetesGateway, Namespace: "a", Name: "edge"}, Class: "lateen",
		Accepted: accepted, Listeners: []model.Listener{{
			Name: "http", Port: 80, Protocol: model.HTTP, Host: "*", Kinds: []kinds.Kind{kinds.HTTPRoute},
			Accepted: accepted, ResolvedRefs: model.Condition{Status: true, Reason: "ResolvedRefs"},
		}},
	}
	service := func(balanced bool, balancers ...string) *model.Service {
		return &model.Service{
			Meta: model.Meta{Kind: kinds.Service, Namespace: "a", Name: "edge-lateen"},
			Host: "edge-lateen.a.svc.cluster.local", ExportTo: model.Exports{All: true},
			Selector: model.LabelsOf(map[string]string{model.GatewayNameLabel: "edge"}),
			Ports:    []model.ServicePort{{Name: "http", Port: 80}},
			Balanced: balanced, Balancers: balancers,
		}
	}
	w := NewWriter()
	for _, test := range []struct {
		service    *model.Service
		addresses  []string
		programmed string
	}{
		{service(true), nil, "AddressNotAssigned"},
		{service(true, "192.0.2.9", "lb.example.com"), []string{"192.0.2.9", "lb.example.com"}, "Programmed"},
		{service(false), []string{"edge-lateen.a.svc.cluster.local"}, "Programmed"},
	} {
		s, _ := w.Apply([]Update{
			{Key: g.Key(), Objects: []model.Object{g}},
			{Key: test.service.Key(), Objects: []model.Object{test.service}},
		})
		status := s.GatewayAPIStatus(kinds.KubernetesGateway, "a", "edge")
		require.NotNil(t, status)
		require.Equal(t, test.addresses, status.Addresses)
		require.Equal(t, test.programmed, status.Programmed.Reason)
	}
}

// A Gateway is Programmed if each of its addresses can be used: there is one, and it is the host of
// a Service. What it serves does not depend on the others.
func TestGatewaySaysWhichAddressCannotBeUsed(t *testing.T) {
	accepted := model.Condition{Status: true, Reason: "Accepted"}
	gateway := func(host model.Host, unusable string) *model.KubernetesGateway {
		return &model.KubernetesGateway{
			Meta: model.Meta{Kind: kinds.KubernetesGateway, Namespace: "a", Name: "edge"}, Class: "lateen",
			Accepted: accepted, Service: host, Unusable: unusable, Listeners: []model.Listener{{
				Name: "http", Port: 80, Protocol: model.HTTP, Host: "*", Kinds: []kinds.Kind{kinds.HTTPRoute},
				Accepted: accepted, ResolvedRefs: model.Condition{Status: true, Reason: "ResolvedRefs"},
			}},
		}
	}
	const host = model.Host("edge.a.svc.cluster.local")
	there := model.Service{
		Meta: model.Meta{Kind: kinds.Service, Namespace: "a", Name: "edge"}, Host: host,
		ExportTo: model.Exports{All: true}, Selector: model.LabelsOf(map[string]string{"app": "edge"}),
		Ports: []model.ServicePort{{Name: "http", Port: 80}},
	}
	balanced := there
	balanced.Balanced = true
	const second = "spec.addresses[1] is a second address"
	for _, test := range []struct {
		gateway             *model.KubernetesGateway
		service             *model.Service
		programmed, message string
		served              int
	}{
		{gateway(host, ""), &there, "Programmed", "", 1},
		{gateway(host, ""), &balanced, "AddressNotAssigned",
			"the Service edge.a.svc.cluster.local waits for the address of its load balancer", 1},
		{gateway(host, second), &there, "AddressNotUsable", second, 1},
		{gateway("nobody.a.svc.cluster.local", second), &there, "AddressNotUsable",
			"there is no Service with the host nobody.a.svc.cluster.local", 0},
		{gateway("", second), &there, "AddressNotUsable", second, 1},
	} {
		s, _ := NewWriter().Apply([]Update{
			{Key: test.gateway.Key(), Objects: []model.Object{test.gateway}},
			{Key: test.service.Key(), Objects: []model.Object{test.service}},
		})
		status := s.GatewayAPIStatus(kinds.KubernetesGateway, "a", "edge")
		require.NotNil(t, status)
		require.True(t, status.Accepted.Status)
		require.Equal(t, test.programmed, status.Programmed.Reason)
		require.Equal(t, test.message, status.Programmed.Message)
		require.Len(t, slices.Collect(s.Gateways()), test.served)
	}
}
