package compile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Two workloads of one namespace of which a rule selects one: a change of the service that both
// call gives each what it would have alone. Random lives hardly ever bring this.
func TestWorkloadsOfANamespaceKeepTheirRulesInAStep(t *testing.T) {
	workload := func(app string) scope.Proxy {
		p := sidecarIn("default")
		p.Labels = model.LabelsOf(map[string]string{"app": app})
		return p
	}
	selected, other := workload("a"), workload("b")
	service := func(protocol model.Protocol) *model.Service {
		return aloneService("s", model.ServicePort{Name: "p", Port: 80, Protocol: protocol})
	}
	rule := &model.DestinationRule{
		Meta: aloneMeta(kinds.DestinationRule, "r"), Host: service(model.HTTP).Host,
		ExportTo: everywhere, Selector: selected.Labels,
		Policy: &model.TrafficPolicy{Pool: &model.ConnectionPool{ConnectTimeout: 7 * time.Second}},
	}
	rule.Namespace = "default"
	for _, order := range [][2]scope.Proxy{{selected, other}, {other, selected}} {
		w := state.NewWriter()
		w.Apply(updatesOf([]model.Object{service(model.HTTP), rule}))
		first := placeIn(t, w.Snapshot(), order[0])
		has := map[resource.ClassID]resource.State{}
		var second resource.ClassID
		first.comp.Join(Facts{Proxy: order[1]}, func(_ *Member, at Placement) { second = at.Class })
		_, delta := w.Apply(updatesOf([]model.Object{service(model.HTTP2)}))
		first.comp.Advance(delta, func(s Step) {
			for _, changed := range s.Changed {
				has[changed.Class] = changed.State
			}
		})
		require.Len(t, has, 2)
		require.Equal(t, dump(placeIn(t, w.Snapshot(), order[1]).state), dump(has[second]))
		delete(has, second)
		for _, state := range has {
			require.Equal(t, dump(placeIn(t, w.Snapshot(), order[0]).state), dump(state))
		}
	}
}
