package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// One part changes alone, of how the mesh has proxies share calls among zones: no other input of
// the cluster tells it. Random lives hardly ever bring these.
func TestOnePartOfHowZonesShareChanges(t *testing.T) {
	service := aloneService("a", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	lives := [][]state.Update{}
	for i, locality := range []*model.LocalityLB{
		nil, {ZoneAware: true}, {ZoneAware: true, MinClusterSize: 2},
		{ZoneAware: true, MinClusterSize: 2, Off: true}, nil,
	} {
		mesh := model.DefaultMesh()
		mesh.Locality = locality
		life := []state.Update{{
			Key:     source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"},
			Objects: []model.Object{&mesh},
		}}
		if i == 0 {
			life = append(life, updatesOf([]model.Object{service})...)
		}
		lives = append(lives, life)
	}
	requireFollowsUpdates(t, scope.Proxy{Namespace: "default", Name: "p"}, lives)
}
