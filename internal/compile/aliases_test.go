package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// A route to another name of a service makes the service visible to a class whose Sidecar does not
// list it, and lets it go again. Random lives hardly ever bring one without the other changes.
func TestARouteToAnotherNameMakesItsServiceVisible(t *testing.T) {
	listed := &model.Sidecar{Meta: aloneMeta(kinds.Sidecar, "s")}
	listed.Egress = []model.EgressListener{{Hosts: []model.ScopedHost{{Namespace: "default", Host: "*"}}}}
	service := aloneService("real", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	service.Namespace, service.Host = "other", model.Resolve("real", "other", "cluster.local")
	name := aloneService("name")
	name.Namespace, name.Host = "other", model.Resolve("name", "other", "cluster.local")
	name.Resolution, name.AliasOf = model.StrictDNS, service.Host
	routed := aloneService("routed", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	route := &model.VirtualService{
		Meta:     aloneMeta(kinds.VirtualService, "v"),
		ExportTo: everywhere,
		Hosts:    []model.Host{routed.Host},
		Gateways: []string{model.Mesh},
	}
	route.HTTP = []*model.HTTPRoute{{Destinations: []model.Destination{{Host: name.Host, Weight: 1}}}}
	requireFollowsUpdates(t, scope.Proxy{Namespace: "default", Name: "p"}, [][]state.Update{
		updatesOf([]model.Object{listed, service, name, routed}),
		updatesOf([]model.Object{route}),
		{{Key: route.Key()}},
	})
}
