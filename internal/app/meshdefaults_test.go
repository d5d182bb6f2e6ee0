package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app/config"
)

// Settings of the control plane hold in a mesh without an object with the mesh configuration too:
// one of them closes something.
func TestSettingsHoldWithoutAMeshConfiguration(t *testing.T) {
	none := uint32(0)
	o := Options{Mesh: model.DefaultMesh(), Config: config.Config{
		OwnHostsOnly: true, Sessions: true, Sampling: &none,
	}}
	o.Mesh = o.meshDefaults()
	w := newWriter(o)
	snap, _ := w.Apply(nil)
	require.True(t, snap.Mesh.OwnHostsOnly)
	require.True(t, snap.Mesh.Sessions)
	require.Zero(t, snap.Mesh.Tracing.Sampling)
}
