package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/install"
)

func TestDebugPagesAreAskedForByTheNamesOfTheService(t *testing.T) {
	o := Options{Mesh: model.DefaultMesh(), DebugHosts: []string{"Mesh.Example.com."}}
	require.Equal(t, []string{"mesh.example.com"}, debugHosts(o))
	o.Cluster = &Cluster{o: ClusterOptions{Names: install.NamesOf("mesh", "canary")}}
	require.Contains(t, debugHosts(o), "istiod-canary.mesh.svc")
	require.Contains(t, debugHosts(o), "istiod.mesh.svc.cluster.local")
}
