package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A Gateway that names a Secret of the control plane learns that no proxy gets it.
func TestGatewayThatNamesTheControlPlanesSecretIsToldSo(t *testing.T) {
	snap := NewWriter().Snapshot()
	root := snap.Mesh.RootNamespace
	g := &model.Gateway{Servers: []model.GatewayServer{
		{TLS: &model.ServerTLS{Credentials: []string{"cacerts"}}},
		{TLS: &model.ServerTLS{Credentials: []string{"other"}}},
	}}
	p, lacks := snap.SecretProblem(g, 0, root)
	require.True(t, lacks)
	require.Equal(t, "cacerts", p.Value)
	require.Contains(t, p.Message, "the control plane's own, which no proxy gets")
	p, _ = snap.SecretProblem(g, 1, root)
	require.Contains(t, p.Message, "there is no Secret of this name")
	p, _ = snap.SecretProblem(g, 0, "shop")
	require.Contains(t, p.Message, "there is no Secret of this name", "elsewhere it is a name as any other")
}
