package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Sidecars call a wildcard at the address that the workload has looked up. Gateways have none.
func TestAGatewaysRouteToAWildcardWithoutResolutionIsTold(t *testing.T) {
	c := newChecked()
	entry := func(host model.Host, resolution model.Resolution) state.Update {
		m := meta(kinds.ServiceEntry, "default", "partners")
		return update(&model.Service{
			Meta: m, Host: host, Resolution: resolution, External: true, ExportTo: model.Exports{All: true},
			Ports: []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP}},
		}, m)
	}
	routes := func(to model.Host, gateways ...string) state.Update {
		m := meta(kinds.VirtualService, "default", "v")
		return update(&model.VirtualService{
			Meta: m, Hosts: []model.Host{to}, Gateways: gateways, ExportTo: model.Exports{All: true},
			HTTP: []*model.HTTPRoute{{Destinations: []model.Destination{{Host: to, Port: 80, Weight: 1}}}},
		}, m)
	}
	told := func(updates ...state.Update) []string {
		var lines []string
		for _, p := range c.apply(updates...) {
			if p.Object.Kind == kinds.VirtualService && p.Value == "*.partner.test" {
				lines = append(lines, p.Path+": "+p.Message)
			}
		}
		return lines
	}
	is := []string{"spec.http[0].route[0].destination.host: ServiceEntry default/partners has no resolution for this " +
		"wildcard; gateways answer requests with 503, and close connections"}
	require.Equal(t, is, told(entry("*.partner.test", model.Passthrough), routes("*.partner.test", "default/g")))
	require.Equal(t, is, told(routes("*.partner.test", model.Mesh, "default/g")))
	require.Empty(t, told(routes("*.partner.test", model.Mesh)))
	require.Empty(t, told(entry("a.partner.test", model.Passthrough), routes("a.partner.test", "default/g")))
}
