package state_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// A Gateway whose parametersRef names no ConfigMap is not accepted, as the specification has it.
// What it was deployed as stays, and is not applied without the parameters. Its listeners go on.
func TestMistakenParametersChangeNoDeployment(t *testing.T) {
	w := state.NewWriter()
	apply := func(ref string) {
		text := strings.Replace(gateway(""), "  listeners:",
			"  infrastructure: {parametersRef: {group: \"\", kind: "+ref+", name: p}}\n  listeners:", 1)
		text = strings.Replace(text, "namespace: bad}", "namespace: bad, uid: u}", 1)
		w.Apply(updatesOf(t, text))
	}
	apply("ConfigMap")
	status := w.Snapshot().GatewayAPIStatus(kinds.KubernetesGateway, "bad", "bad")
	require.Equal(t, "Accepted", status.Accepted.Reason)
	require.Equal(t, "p", status.Deployment.Parameters)
	require.Empty(t, status.Deployment.Mistake)

	apply("Secret")
	status = w.Snapshot().GatewayAPIStatus(kinds.KubernetesGateway, "bad", "bad")
	require.Equal(t, "InvalidParameters", status.Accepted.Reason)
	require.False(t, status.Accepted.Status)
	require.Equal(t, status.Accepted.Message, status.Deployment.Mistake)
	require.True(t, status.Listeners[0].Accepted.Status)
}
