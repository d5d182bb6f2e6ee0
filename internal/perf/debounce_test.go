package perf

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

func TestDebounceScenarioCountsOneArrivalPerWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFake().options(load.Shape{Namespaces: 2, Services: 12, VirtualServices: 2}, 3)
		s, err := DebounceScenario(o, 2*time.Second)
		require.NoError(t, err)
		r, err := Run(t.Context(), o, s)
		require.NoError(t, err)
		var changes, arrivals []int
		for _, p := range r.Phases[2:] {
			changes, arrivals = append(changes, p.Changes), append(arrivals, p.Latency.Count)
			require.Equal(t, float64(p.Changes), p.Pushes(), "%s: the fake sends each change by itself", p.Name)
		}
		require.Equal(t, []int{3, 3, 80, 80, 10_000, 2000}, changes)
		require.Equal(t, []int{9, 9, 240, 240, 3000, 3000}, arrivals, "of those that are written at once one counts")
	})
}

func TestDebounceScenarioRefusesImpossibleStorms(t *testing.T) {
	o := newFake().options(load.Shape{Namespaces: 2, Services: 12, VirtualServices: 2}, 3)
	_, err := DebounceScenario(o, time.Millisecond)
	require.ErrorContains(t, err, "storms of 1ms: want a second at least")
	_, err = DebounceScenario(o, time.Hour)
	require.ErrorContains(t, err, "storms of 1h0m0s: there are marks for 131071 changes")
	o.Mesh.VirtualServices = 1
	_, err = DebounceScenario(o, time.Minute)
	require.ErrorContains(t, err, "10 services, 2 with a VirtualService")
}

func TestDebounceTable(t *testing.T) {
	var out strings.Builder
	w := terminal.New(&out, func(string) string { return "" })
	slower := example()
	slower.Phases[1].Latency, slower.Phases[1].Responses = summaryOf(2500, 5000), 2000
	w.Table(DebounceTable([]Debounced{{"default", example()}, {"PILOT_DEBOUNCE_AFTER=100ms", slower}}))
	golden.File(t, "testdata/debounce.txt", out.String())
}
