package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A service's clients get sessions, other ones, and none again; and so does the mesh. An endpoint
// that ends is known to the clients of a session alone. Random lives hardly ever bring each alone.
func TestOnePartOfSessionsChanges(t *testing.T) {
	port := model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP}
	slice := &model.EndpointSlice{Meta: aloneMeta(kinds.EndpointSlice, "a-1"), Service: "a"}
	slice.Ports = []model.SlicePort{{Name: "http", Port: 8080}}
	slice.Hosts = []model.SliceHost{
		{Address: "127.1.0.1", Health: model.Healthy}, {Address: "127.1.0.2", Health: model.Ending},
	}
	sessions := func(on bool) []state.Update {
		mesh := model.DefaultMesh()
		mesh.Sessions = on
		return []state.Update{{
			Key:     source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"},
			Objects: []model.Object{&mesh},
		}}
	}
	with := func(s *model.Session) []state.Update {
		svc := aloneService("a", port)
		svc.Session = s
		return updatesOf([]model.Object{svc})
	}
	a, b := &model.Session{Cookie: "a", Path: "/"}, &model.Session{Cookie: "b", Path: "/"}
	p := scope.Proxy{Namespace: "default", Name: "p", Settings: scope.Settings{HTTPProxyPort: 15080}}
	requireFollowsUpdates(t, p, [][]state.Update{
		append(updatesOf([]model.Object{slice}), with(nil)...),
		sessions(true), with(a), with(b), with(a), with(nil), sessions(false),
	})
}
