package up

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

func TestACheckAsksForWhatTheGatewayPromises(t *testing.T) {
	meta := func(k kinds.Kind, name string) model.Meta {
		return model.Meta{Kind: k, Namespace: "default", Name: name}
	}
	path := func(p string, gateways ...string) *model.HTTPRoute {
		return &model.HTTPRoute{Matches: []*model.HTTPMatch{{URI: &model.StringMatch{Kind: model.Prefix, Value: p},
			Gateways: gateways}}}
	}
	cookie := path("/cookie")
	cookie.Matches[0].Headers = []model.HeaderMatch{{Name: "cookie", Match: model.StringMatch{Kind: model.Present}}}
	updates := []state.Update{}
	add := func(m model.Meta, o model.Object) {
		updates = append(updates, state.Update{Key: m.Key(), Objects: []model.Object{o}})
	}
	svc := meta(kinds.Service, "gw")
	add(svc, &model.Service{Meta: svc, Host: "gw.default.svc.cluster.local",
		Ports: []model.ServicePort{{Name: "http", Port: 80}}})
	for name, port := range map[string]uint16{"public": 80, "inner": 81} {
		m := meta(kinds.Gateway, name)
		add(m, &model.Gateway{Meta: m, Servers: []model.GatewayServer{
			{Port: port, Protocol: model.HTTP, Hosts: []model.ScopedHost{{Namespace: "*", Host: "*.example.com"}}},
		}})
	}
	shop := meta(kinds.VirtualService, "shop")
	add(shop, &model.VirtualService{
		Meta: shop, Hosts: []model.Host{"shop.default.svc.cluster.local",
			"shop.example.com"}, Gateways: []string{model.Mesh, "default/public"},
		HTTP: []*model.HTTPRoute{path("/a"), path("/mesh", model.Mesh), cookie},
	})
	other := meta(kinds.VirtualService, "other")
	add(other, &model.VirtualService{Meta: other, Hosts: []model.Host{"*"}, Gateways: []string{"default/inner"},
		HTTP: []*model.HTTPRoute{path("/b")}})
	w, _ := state.NewWriter().Apply(updates)

	balancer := local.LoadBalancer{Namespace: "default", Service: "gw", Port: "http",
		Address: netip.MustParseAddrPort("127.0.0.1:8080"), HTTP: true}
	require.Equal(t, []target{{url: "http://127.0.0.1:8080", host: "shop.example.com", path: "/a"}},
		checkTargets([]local.LoadBalancer{balancer}, w))
}
