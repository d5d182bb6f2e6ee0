package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// TestARouteThatLosesItsListenerIsTold: of two routes of the Gateway API with the same connections
// or requests at one listener, the second one is told, and no more when the first one goes.
func TestARouteThatLosesItsListenerIsTold(t *testing.T) {
	ok := model.Condition{Status: true}
	listener := func(name string, port uint16, p model.Protocol, takes ...kinds.Kind) model.Listener {
		l := model.Listener{
			Name: name, Port: port, Protocol: p, Host: "*", Kinds: takes,
			From: model.NamespaceSelector{All: true}, Accepted: ok, ResolvedRefs: ok,
		}
		if p == model.TLS {
			l.TLS = &model.ServerTLS{Mode: model.ServerPassthrough}
		}
		return l
	}
	gateway := meta(kinds.KubernetesGateway, "default", "g")
	c := newChecked()
	told := func(updates ...state.Update) []string {
		var lines []string
		for _, p := range c.apply(updates...) {
			if p.Object.Kind != kinds.KubernetesGateway {
				lines = append(lines, p.Object.String()+" "+p.Path+" "+p.Value+": "+p.Message)
			}
		}
		return lines
	}
	path := &model.HTTPMatch{URI: &model.StringMatch{Kind: model.Prefix, Value: "/a"}}
	other := &model.HTTPMatch{URI: &model.StringMatch{Kind: model.Prefix, Value: "/b"}}
	route := func(kind kinds.Kind, name, section string, matches ...*model.HTTPMatch) state.Update {
		m := meta(kind, "default", name)
		r := &model.AttachedRoute{
			Meta: m, Accepted: ok, ResolvedRefs: ok,
			Parents: []model.ParentRef{{Group: kinds.GatewayAPIGroup, Kind: "Gateway", Name: "g", Section: section}},
		}
		if kind != kinds.TCPRoute {
			r.Hosts = []model.Host{"x.test"}
		}
		if len(matches) > 0 {
			r.HTTP = []*model.HTTPRoute{{Matches: matches, Redirect: &model.Redirect{URI: "/"}}}
		} else {
			r.TCP = []*model.TCPRoute{{Broken: "no backend"}}
		}
		return update(r, m)
	}
	require.Empty(t, told(
		update(&model.KubernetesGateway{Meta: gateway, Class: "istio", Accepted: ok, Listeners: []model.Listener{
			listener("tcp", 9000, model.TCP, kinds.TCPRoute), listener("other", 9001, model.TCP, kinds.TCPRoute),
			listener("tls", 443, model.TLS, kinds.TLSRoute),
			listener("http", 80, model.HTTP, kinds.HTTPRoute, kinds.GRPCRoute),
		}}, gateway),
		route(kinds.TCPRoute, "a", "tcp"), route(kinds.TCPRoute, "c", "other"), route(kinds.TLSRoute, "a", "tls"),
		route(kinds.HTTPRoute, "a", "http", path), route(kinds.GRPCRoute, "a", "http", other),
	))
	require.Equal(t, []string{"TCPRoute default/b spec.parentRefs : " +
		"TCPRoute default/a is at the same listener and comes first; it gets all connections"},
		told(route(kinds.TCPRoute, "b", "tcp")))
	require.Empty(t, told(gone(route(kinds.TCPRoute, "a", ""))))
	require.Empty(t, told(gone(route(kinds.TCPRoute, "b", ""))))

	require.Equal(t, []string{"TLSRoute default/b spec.hostnames x.test: " +
		"TLSRoute default/a has this host at the same listener and comes first; it gets all connections"},
		told(route(kinds.TLSRoute, "b", "tls")))
	require.Empty(t, told(gone(route(kinds.TLSRoute, "b", ""))))

	require.Empty(t, told(route(kinds.HTTPRoute, "b", "http", path, &model.HTTPMatch{})), "one match is its own")
	require.Equal(t, []string{"HTTPRoute default/b spec.rules[0].matches x.test: " +
		"HTTPRoute default/a has the same matches for this host and comes first; it gets all requests"},
		told(route(kinds.HTTPRoute, "b", "http", path)))
	require.Empty(t, told(gone(route(kinds.HTTPRoute, "a", ""))))
	require.Len(t, told(route(kinds.HTTPRoute, "b", "http", other)), 1, "of a GRPCRoute")
}
