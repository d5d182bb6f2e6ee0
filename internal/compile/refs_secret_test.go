package compile

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A cluster refers to secrets that come over the stream, as it waits for them; no cluster of any
// golden case does.
func TestAClusterRefersToItsSecrets(t *testing.T) {
	gateway := gatewayProxy()
	w := state.NewWriter()
	w.Apply(updatesOf(calledWith(&model.Authorities{Certificates: model.NewSensitive("ca")})))
	clusters := placeIn(t, w.Snapshot(), gateway).state.Set(resource.Cluster)
	require.Equal(t, []string{
		model.AuthoritiesName("c"),
	}, slices.Collect(clusters.Get("outbound|80||a.default.svc.cluster.local").Refs().Secrets.All()))
	require.Zero(t, clusters.Get("BlackHoleCluster").Refs())
}
