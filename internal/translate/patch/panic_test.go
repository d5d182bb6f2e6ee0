package patch

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TestAPanicFailsThePatchesAlone: the message stays as it was, and it is said why.
func TestAPanicFailsThePatchesAlone(t *testing.T) {
	p := Patch{ConfigPatch: &model.ConfigPatch{Target: model.PatchCluster}}
	by := model.NewInterner[Patch]().List([]Patch{p})
	m := &clusterv3.Cluster{Name: "a"}
	calls := 0
	panics := func(r *run, m *clusterv3.Cluster) *clusterv3.Cluster {
		for range r.of(model.PatchCluster) {
			calls++
			panic("a mistake")
		}
		return m
	}
	changed, out := task[*clusterv3.Cluster]{by, model.SidecarOutbound, panics}.on(m)
	require.True(t, proto.Equal(m, changed))
	require.ErrorContains(t, out.Failed[0], "a mistake")
	require.Equal(t, 1, calls)
}
