package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// One port changes alone, of those where proxies take redirected connections. Random lives hardly
// ever bring these.
func TestOnePortOfInterceptionChanges(t *testing.T) {
	at := func(outbound, inbound uint16) []state.Update {
		mesh := model.DefaultMesh()
		mesh.OutboundPort, mesh.InboundPort = outbound, inbound
		return []state.Update{{
			Key:     source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"},
			Objects: []model.Object{&mesh},
		}}
	}
	p := scope.Proxy{Namespace: "default", Name: "p", Settings: scope.Settings{Intercepted: true}}
	requireFollowsUpdates(t, p, [][]state.Update{at(0, 0), at(15101, 0), at(15101, 15106), at(15102, 15106), at(0, 0)})
}
