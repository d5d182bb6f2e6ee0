package perf

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/sizing"
)

// TestConstantsOfALine: what costs 3 and 2 for each service is found to.
func TestConstantsOfALine(t *testing.T) {
	at := func(services float64) connectCost {
		return connectCost{sizing.Cost{CPUSeconds: 3, Sent: 5,
			Received: 1}.Add(sizing.Cost{CPUSeconds: 2, Sent: 7}.Times(services)), services}
	}
	var c sizing.Constants
	setConnectCosts(&c, at(10), at(100))
	require.InDelta(t, 3, c.Connect.CPUSeconds, 1e-9)
	require.InDelta(t, 2, c.ConnectService.CPUSeconds, 1e-9)
	require.InDelta(t, 5, c.Connect.Sent, 1e-9)
	require.InDelta(t, 7, c.ConnectService.Sent, 1e-9)
	require.InDelta(t, 1, c.Connect.Received, 1e-9)
	require.Zero(t, c.ConnectService.Received)
}

func TestConstantsOfMemory(t *testing.T) {
	c := sizing.Constants{BaseBytes: 1000, ServiceBytes: 10, PodBytes: 2}
	r := Report{Mesh: load.Shape{Services: 100, Pods: 50}, Phases: []Phase{
		{}, {}, {Sidecars: 10, Resident: 1000 + 1000 + 100 + 400 + 10*7}, {}, {Sidecars: 40,
			Resident: 1000 + 1000 + 100 + 400 + 40*7},
	}}
	setSidecarBytes(&c, r)
	require.InDelta(t, 7, c.SidecarBytes, 1e-9)
	require.InDelta(t, 4, c.TranslatedBytes, 1e-9, "400 bytes of 100 services")
}

// TestConstantsOfARun: the fake takes a second for each look at it, and a MiB for each sidecar.
func TestConstantsOfARun(t *testing.T) {
	o := newFake().options(load.Shape{Namespaces: 2, Services: 20, VirtualServices: 1}, 8)
	fleet := o.Fleet
	var f *fake
	o.Fleet = func(address string, h Hooks) (Fleet, error) {
		fl, err := fleet(address, h)
		f = fl.(fakeFleet).fake
		clear(f.pods)
		return fl, err
	}
	c, err := MeasureConstants(t.Context(), o)
	require.NoError(t, err)
	require.InDelta(t, 1<<20, c.SidecarBytes, 1e-9)
	require.Equal(t, []string{"create-services", "endpoints", "routes"}, c.Kinds())
	for kind, cost := range c.Change {
		require.InDelta(t, 1.0/(3*8), cost.CPUSeconds, 1e-9, kind)
	}
	require.Equal(t, measure.ThisMachine(), c.Machine)

	o.Mesh.Services = 5
	o.Mesh.Namespaces = 1
	_, err = MeasureConstants(t.Context(), o)
	require.ErrorContains(t, err, "5 services and 8 sidecars: want 10 and 4 at least")
}
