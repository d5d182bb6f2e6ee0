package compile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A Gateway takes other hosts in the batch that takes away its VirtualService: the virtual host
// that was of both goes, though neither the Gateway as it is nor the VirtualService, which is gone,
// leads to it. Random lives hardly ever bring this.
func TestGatewayAndItsRoutesChangeTogether(t *testing.T) {
	gateway := func(name string, host model.Host) state.Update {
		g := &model.Gateway{Meta: model.Meta{Kind: kinds.Gateway, Namespace: "default", Name: name}}
		g.Servers = []model.GatewayServer{{Port: 80, Protocol: model.HTTP, Hosts: []model.ScopedHost{{
			Namespace: "*",
			Host:      host,
		}}}}
		return state.Update{Key: g.Key(), Objects: []model.Object{g}}
	}
	v := &model.VirtualService{Meta: model.Meta{
		Kind:      kinds.VirtualService,
		Namespace: "default",
		Name:      "v",
	}, ExportTo: model.Exports{All: true}}
	v.Hosts, v.Gateways = []model.Host{"a.com"}, []string{"default/a"}
	v.HTTP = []*model.HTTPRoute{{Direct: &model.DirectResponse{Status: 200}}}
	routes := state.Update{Key: v.Key(), Objects: []model.Object{v}}

	w, c := state.NewWriter(), NewCompiler(refuseNothing(t))
	var placed Placement
	c.Join(Facts{Proxy: scope.Proxy{
		Type:      scope.Router,
		Namespace: "default",
		Name:      "gw",
	}}, func(_ *Member, p Placement) { placed = p })
	step := func(updates ...state.Update) map[string]resource.Version {
		_, d := w.Apply(updates)
		c.Advance(d, func(s Step) {
			for _, changed := range s.Changed {
				placed.State = changed.State
			}
		})
		return dump(placed.State)
	}
	require.Contains(t, step(gateway("a", "*.com"), gateway("b", "*.org"), routes), "vhds http.80/a.com:80")
	require.NotContains(t, step(gateway("a", "c.org"), state.Update{Key: v.Key()}), "vhds http.80/a.com:80")
	require.NotContains(t, step(gateway("a", "*.com")), "vhds http.80/a.com:80")
	require.NotContains(t, step(gateway("a", "c.org"), routes), "vhds http.80/a.com:80")
	require.Contains(t, step(gateway("a", "*.com")), "vhds http.80/a.com:80")
	require.NotContains(t, step(state.Update{Key: v.Key()}, state.Update{
		Key: gateway("a", "").Key,
	}), "vhds http.80/a.com:80")
	require.Contains(t, step(gateway("a", "*.com"), routes), "vhds http.80/a.com:80")
}
