package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

func TestWhatIsShadowedIsTold(t *testing.T) {
	c := newChecked()
	told := func(updates ...state.Update) []string {
		var objects []string
		for _, p := range c.apply(updates...) {
			objects = append(objects, p.Object.Name+" "+p.Path+" "+p.Value)
		}
		return objects
	}
	routes := func(name string, gateway string, hosts ...model.Host) state.Update {
		m := meta(kinds.VirtualService, "default", name)
		return update(&model.VirtualService{
			Meta: m, Hosts: hosts, Gateways: []string{gateway}, ExportTo: model.Exports{All: true},
			HTTP: []*model.HTTPRoute{{Redirect: &model.Redirect{URI: "/"}}},
		}, m)
	}
	ruleFor := func(name string, host model.Host) state.Update {
		m := meta(kinds.DestinationRule, "default", name)
		return update(&model.DestinationRule{
			Meta: m, Host: host, Policy: &model.TrafficPolicy{}, Subsets: []model.Subset{{Name: name}, {Name: "v1"}},
		}, m)
	}
	require.Empty(t, told(
		routes("b", model.Mesh, "x.test", "y.test"), routes("c", model.Mesh, "z.test"), ruleFor("s", "x.test"),
	))
	require.Equal(t, []string{"c spec.hosts y.test"}, told(routes("c", model.Mesh, "y.test", "z.test")))
	require.Equal(t, []string{"b spec.hosts y.test", "c spec.hosts y.test"}, told(routes("a", model.Mesh, "y.test")))
	require.Empty(t, told(routes("c", model.Mesh, "z.test"), gone(routes("a", model.Mesh))))
	parts := []string{"s spec.subsets v1", "s spec.trafficPolicy "}
	require.Equal(t, parts, told(ruleFor("r", "x.test")))
	require.Empty(t, told(ruleFor("r", "other.test")))
	require.Equal(t, parts, told(ruleFor("r", "x.test")))
	require.Empty(t, told(gone(ruleFor("r", "x.test"))))

	peers := func(name, app string) state.Update {
		m := meta(kinds.PeerAuthentication, "default", name)
		return update(&model.PeerAuthentication{Meta: m, Selector: model.LabelsOf(map[string]string{"app": app})}, m)
	}
	require.Empty(t, told(peers("b", "web"), peers("c", "db")))
	require.Equal(t, []string{"b spec.selector "}, told(peers("a", "web")))
	require.Equal(t, []string{"b spec.selector ", "c spec.selector "}, told(peers("c", "web")))
	require.Equal(t, []string{"c spec.selector "}, told(gone(peers("a", ""))))
	require.Empty(t, told(gone(peers("b", ""))))
}
