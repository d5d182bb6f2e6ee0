package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

const webHost = model.Host("web.default.svc.cluster.local")

func serviceWithPorts(numbers ...uint16) state.Update {
	m := meta(kinds.Service, "default", "web")
	s := &model.Service{Meta: m, Host: webHost}
	for _, n := range numbers {
		s.Ports = append(s.Ports, model.ServicePort{Name: "http", Port: n, Protocol: model.HTTP})
	}
	return update(s, m)
}

func gatewayOn(name string, host model.Host, numbers ...uint16) state.Update {
	m := meta(kinds.Gateway, "default", name)
	g := &model.Gateway{Meta: m}
	for _, n := range numbers {
		g.Servers = append(g.Servers, model.GatewayServer{
			Port: n, Protocol: model.HTTP, Hosts: []model.ScopedHost{{Namespace: "*", Host: host}},
		})
	}
	return update(g, m)
}

func routesTo(hosts []model.Host, gateways ...string) state.Update {
	m := meta(kinds.VirtualService, "default", "v")
	to := []*model.HTTPRoute{{Destinations: []model.Destination{{Host: webHost}}}}
	return update(&model.VirtualService{Meta: m, Hosts: hosts, Gateways: gateways, HTTP: to}, m)
}

// TestDestinationNeedsAPortWhereTheCalledOneIsMissing: the port that is called counts where a
// destination names none and its service has several.
func TestDestinationNeedsAPortWhereTheCalledOneIsMissing(t *testing.T) {
	c := newChecked()
	told := func(updates ...state.Update) []string {
		var texts []string
		for _, p := range c.apply(updates...) {
			texts = append(texts, p.Severity.String()+" "+p.Path+": "+p.Message)
		}
		return texts
	}
	const path = "spec.http[0].route[0].destination.port: is not set, and Service default/web has several ports: " +
		"calls at port "
	require.Equal(t, []string{"error " + path + "18080 of Gateway default/g are answered with 503"},
		told(serviceWithPorts(80, 8080), gatewayOn("g", "*", 18080), routesTo([]model.Host{"*"}, "default/g")))
	require.Empty(t, told(serviceWithPorts(80)), "the only port needs no name")
	require.Empty(t, told(serviceWithPorts(80, 18080)))
	require.Equal(t, []string{"warning " + path + "18081 of Gateway default/g are answered with 503"},
		told(gatewayOn("g", "*", 18080, 18081)))
	require.Empty(t, told(gatewayOn("g", "*", 80)))

	called := meta(kinds.Service, "default", "called")
	ports := func(n uint16) state.Update {
		return update(&model.Service{
			Meta: called, Host: "called.default.svc.cluster.local",
			Ports: []model.ServicePort{{Port: n, Protocol: model.HTTP}},
		}, called)
	}
	require.Equal(t, []string{"error " + path + "9000 of called.default.svc.cluster.local are answered with 503"},
		told(ports(9000), routesTo([]model.Host{"called.default.svc.cluster.local"}, model.Mesh)))
	require.Empty(t, told(ports(80)), "the ports of the called service changed")
}

// TestHostsThatNoGatewayTakesAreReported: as VirtualServices and Gateways change.
func TestHostsThatNoGatewayTakesAreReported(t *testing.T) {
	c := newChecked()
	told := func(updates ...state.Update) []string {
		var texts []string
		for _, p := range c.apply(updates...) {
			require.Equal(t, source.Warning, p.Severity)
			texts = append(texts, p.Path+" = "+p.Value+": "+p.Want)
		}
		return texts
	}
	c.apply(serviceWithPorts(80))
	require.Equal(t, []string{"spec.hosts[0] = other.test: a host of default/g"},
		told(gatewayOn("g", "only.test", 80), routesTo([]model.Host{"other.test"}, "default/g")))
	require.Empty(t, told(gatewayOn("g", "*.test", 80)))
	require.Empty(t, told(gatewayOn("g", "a.test", 80), routesTo([]model.Host{"*.test"}, "default/g")))
	require.Equal(t, []string{"spec.gateways[1] = default/h: one of */b.example"},
		told(gatewayOn("h", "b.example", 80), routesTo([]model.Host{"a.test"}, "default/g", "default/h")))
	require.Equal(t, []string{"spec.gateways[1] = default/h: one of */b.example"},
		told(routesTo([]model.Host{webHost}, model.Mesh, "default/h")))
	require.Empty(t, told(routesTo([]model.Host{webHost}, model.Mesh)))
}
