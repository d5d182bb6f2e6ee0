package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Of two sessions on a route the first one is in force, and the other one is reported.
func TestARouteHasOneSession(t *testing.T) {
	c := newChecked()
	service := func(name, cookie string) state.Update {
		u := kubeService("default", name)
		if svc, is := u.Objects[0].(*model.Service); is && cookie != "" {
			svc.ExportTo, svc.Session = model.Exports{All: true}, &model.Session{Cookie: cookie, Path: "/"}
		}
		return u
	}
	route := func(own *model.Session) state.Update {
		m := meta(kinds.VirtualService, "default", "v")
		return update(&model.VirtualService{
			Meta: m, Hosts: []model.Host{"a.default.svc.cluster.local"}, Gateways: []string{model.Mesh},
			HTTP: []*model.HTTPRoute{{Session: own, Destinations: []model.Destination{
				{Host: "a.default.svc.cluster.local", Weight: 50},
				{Host: "b.default.svc.cluster.local", Weight: 50},
			}}},
		}, m)
	}
	require.Empty(t, c.apply(service("a", "s"), service("b", ""), route(nil)))
	require.Empty(t, c.apply(service("b", "s")), "the same session")
	problems := c.apply(service("b", "t"))
	require.Len(t, problems, 1)
	require.Equal(t, "spec.http[0].route[1].destination.host", problems[0].Path)
	require.Contains(t, problems[0].Message, "the session of Service default/b has no effect")
	require.Empty(t, c.apply(route(&model.Session{Cookie: "own", Path: "/"})), "a session of its own")
	require.Len(t, c.apply(route(nil)), 1)
	require.Empty(t, c.apply(service("a", "")))
}
