package advise

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// noisyCosts are of a namespace whose endpoints come and go.
func noisyCosts() Costs {
	return Costs{Window: 60, Objects: []Cost{
		{Kind: "Service", Namespace: "ns-01", Name: "quiet", Changes: 1, Seconds: 0.6},
		{Kind: "VirtualService", Namespace: "ns-03", Name: "web", Changes: 2, Seconds: 0.3},
		{Kind: "EndpointSlice", Namespace: "ns-03", Name: "flapping-x2x4q", Changes: 600, Seconds: 4.8},
		{Kind: "(start)", Changes: 1, Seconds: 0.3},
	}}
}

// TestTheNoisyNamespaceIsNamed: with the object to begin with and what calms it, and not where all
// are alike or all of it is little.
func TestTheNoisyNamespaceIsNamed(t *testing.T) {
	found := func(c Costs) []Finding { return (&diagnosis{Facts: &Facts{Costs: c}}).noisy() }
	advice := found(noisyCosts())
	require.Len(t, advice, 1)
	require.Contains(t, advice[0].Summary, "ns-03")
	require.Contains(t, advice[0].Remedy.Text, "probes")
	require.InDelta(t, 10, advice[0].Evidence[2].Value, 1e-9)

	written := noisyCosts()
	written.Objects[2].Kind = "VirtualService"
	require.Contains(t, found(written)[0].Remedy.Text, "lateen history --object")
	little := noisyCosts()
	little.Window = 6000
	require.Empty(t, found(little))
	alike := noisyCosts()
	alike.Objects[0].Seconds = 9
	alike.Objects[3].Seconds = 9
	require.Empty(t, found(alike))
	require.Empty(t, found(Costs{}))
	require.Empty(t, found(Costs{Window: 60}))
}
