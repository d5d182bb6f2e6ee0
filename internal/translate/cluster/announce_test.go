package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
)

// A version of the PROXY protocol that there is not closes the destination, but for connections
// that are handed on as they are. A manifest or an API server that says so is refused before.
func TestUnknownProxyProtocolClosesTheDestination(t *testing.T) {
	in := cluster.OutboundInput{
		Host: "a.test", Port: 80, Protocol: model.HTTP,
		Policy: &model.TrafficPolicy{Announces: model.UnknownProxyProtocol},
	}
	require.Equal(t, "STATIC", cluster.Outbound(in).GetType().String())
	require.Nil(t, cluster.Outbound(in).GetLoadAssignment())
	in.Forwarded = true
	require.Equal(t, "EDS", cluster.Outbound(in).GetType().String())
}
