package sizing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestSizingPageIsCurrent holds docs/sizing.md; with -update it is written anew.
func TestSizingPageIsCurrent(t *testing.T) {
	c, err := Stored()
	require.NoError(t, err)
	d, err := StoredDataPlane()
	require.NoError(t, err)
	page, err := Page(c, d)
	require.NoError(t, err)
	golden.File(t, "../../../docs/sizing.md", page)
}

func TestStoredDataPlaneHasAllCases(t *testing.T) {
	d, err := StoredDataPlane()
	require.NoError(t, err)
	require.Len(t, d.Cases, 3)
	for _, c := range d.Cases {
		for _, p := range []ProxyCost{c.Client, c.Server, c.Gateway} {
			require.Greater(t, p.Cores, 0.01)
			require.Less(t, p.Cores, 2.0, "CPUs for 1,000 requests a second")
			require.Greater(t, p.Bytes, 10e6)
		}
	}
	require.Zero(t, d.Case(false, true), "was not measured")
	require.GreaterOrEqual(t, d.AccessLogs(), 0.0)
}

func TestWhatProxiesNeedByHand(t *testing.T) {
	d := DataPlane{Cases: []DataPlaneCase{{
		Telemetry: true, Client: ProxyCost{0.1, 50e6}, Server: ProxyCost{0.2, 60e6}, Gateway: ProxyCost{0.3, 40e6},
	}, {Telemetry: true, AccessLogs: true, Client: ProxyCost{0.2, 50e6}, Server: ProxyCost{0.25, 60e6}}}}
	need := d.Need(2000, 1000, 10)
	require.InDelta(t, 2*0.3+0.5, need.Cores, 1e-9)
	require.InDelta(t, 600e6, need.Bytes, 1e-9)
	require.InDelta(t, 0.15, d.AccessLogs(), 1e-9)
}
