package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

func externalName(name string, of model.Host) state.Update {
	m := meta(kinds.Service, "default", name)
	return update(&model.Service{
		Meta: m, Host: model.Resolve(name, "default", "cluster.local"), Resolution: model.StrictDNS, AliasOf: of,
		ExportTo: model.Exports{All: true},
	}, m)
}

func routeTo(host model.Host, port uint16) state.Update {
	m := meta(kinds.VirtualService, "default", "v")
	return update(&model.VirtualService{
		Meta: m, Hosts: []model.Host{"al.test"}, Gateways: []string{model.Mesh}, HTTP: []*model.HTTPRoute{
			{Destinations: []model.Destination{{Host: host, Port: port}}},
		},
	}, m)
}

// A Service of type ExternalName has the ports of the service that it stands for.
func TestPortsOfOtherNamesAreThoseOfTheService(t *testing.T) {
	mesh := newChecked()
	alias := externalName("alias", "web.default.svc.cluster.local")
	problems := mesh.apply(
		kubeServiceForAll("web"), alias, externalName("again", "alias.default.svc.cluster.local"),
		routeTo("again.default.svc.cluster.local", 80),
	)
	require.Empty(t, problems)
	problems = mesh.apply(routeTo("again.default.svc.cluster.local", 81))
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Message, "Service default/web has no such port")
	require.Equal(t, "one of 80", problems[0].Want)
	problems = mesh.apply(gone(kubeServiceForAll("web")))
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Message, "Service default/again has no such port")
	require.Equal(t, "the port in the ports of Service default/again", problems[0].Want)
	require.Empty(t, mesh.apply(kubeServiceForAll("web"), routeTo("again.default.svc.cluster.local", 80)))
}

func kubeServiceForAll(name string) state.Update {
	u := kubeService("default", name)
	if svc, is := u.Objects[0].(*model.Service); is {
		svc.ExportTo = model.Exports{All: true}
	}
	return u
}

// A VirtualService keeps another one out of force only where both have routes of one kind for calls
// within the mesh.
func TestRoutesOfAnotherKindShadowNothing(t *testing.T) {
	named := func(name string, v model.VirtualService) state.Update {
		v.Meta = meta(kinds.VirtualService, "default", name)
		v.Hosts, v.ExportTo = []model.Host{"x.test"}, model.Exports{All: true}
		v.Gateways = []string{"default/g", model.Mesh}
		return update(&v, v.Meta)
	}
	http := model.VirtualService{HTTP: []*model.HTTPRoute{{Redirect: &model.Redirect{URI: "/"}}}}
	tcp := model.VirtualService{TCP: []*model.TCPRoute{{Broken: "a mistake"}}}
	atGateway := model.VirtualService{HTTP: []*model.HTTPRoute{{
		Redirect: &model.Redirect{URI: "/"}, Matches: []*model.HTTPMatch{{Gateways: []string{"default/g"}}},
	}}}
	gateway := meta(kinds.Gateway, "default", "g")
	for name, first := range map[string]model.VirtualService{"connections": tcp, "a gateway's": atGateway} {
		t.Run(name, func(t *testing.T) {
			mesh := newChecked()
			gate := update(&model.Gateway{Meta: gateway, Servers: []model.GatewayServer{{
				Port: 80, Protocol: model.HTTP, Hosts: []model.ScopedHost{{Namespace: "*", Host: "*"}},
			}}}, gateway)
			require.Empty(t, mesh.apply(gate, named("a", first), named("b", http)))
			require.NotEmpty(t, mesh.apply(named("a", http)))
		})
	}
}
