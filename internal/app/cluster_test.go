package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyAPodHasOtherReplicas: a process that is no Pod ends connections without a pace.
func TestOnlyAPodHasOtherReplicas(t *testing.T) {
	require.False(t, (*Cluster)(nil).runsInPod(), "no API server")
	require.False(t, (&Cluster{}).runsInPod(), "an API server, from outside")
	require.True(t, (&Cluster{o: ClusterOptions{Pod: "istiod-1"}}).runsInPod())
}
