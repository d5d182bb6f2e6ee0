package perf

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source"
)

func TestPressureMeasuresThoseThatAreWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that each overload has its time
		f := newFake()
		o := PressureOptions{Options: f.options(load.Shape{Namespaces: 1, Services: 3, Pods: 9}, 4), NumMisbehaving: 2,
			NumMassConnect: 5, OverloadRate: 1000, Runs: 2}
		most, gusts := 0, 0
		f.swallows = func(c source.Change) bool {
			most = max(most, f.misbehaving)
			if strings.Contains(c.Key.Name, "-gust-") {
				gusts++
			}
			return false
		}
		require.NoError(t, o.Validate())
		r, err := Pressure(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, 5, most, "those that connect at once")
		require.Zero(t, f.misbehaving, "all are stopped")
		require.Positive(t, gusts)
		require.True(t, f.closed)
		require.Len(t, r.Rows, len(Disturbances()))
		for _, row := range r.Rows {
			require.Len(t, row.Ratios, o.Runs)
			for _, h := range append(row.Without, row.With...) {
				require.Equal(t, o.Changes*o.Sidecars, h.Latency.Count, "%s: those that are well, each change",
					row.Disturbance)
			}
		}
		require.Len(t, r.Table().Rows, len(Disturbances()))
	})
}

func TestPressureTakesTheMedianOfPairs(t *testing.T) {
	half := func(p99 float64) PressureRun { return PressureRun{Latency: measure.Summary{P99: Seconds(p99 * 1e9)}} }
	var p PressurePairs
	for _, with := range []float64{2, 5, 1} {
		p.add(half(2), half(with))
	}
	require.Equal(t, []float64{1, 2.5, 0.5}, p.Ratios)
	require.InDelta(t, 1, median(p.Ratios), 0)
	require.EqualValues(t, 2e9, medianOf(p.With, func(h *PressureRun) Seconds { return h.Latency.P99 }))
}

func TestPressureTellsMistakes(t *testing.T) {
	good := PressureOptions{Options: newFake().options(load.Shape{Namespaces: 1, Services: 2, Pods: 9}, 4),
		NumMisbehaving: 1, NumMassConnect: 5, OverloadRate: 1, Runs: 1}
	require.NoError(t, good.Validate())
	for want, spoil := range map[string]func(o *PressureOptions){
		"want 1 of each at least":  func(o *PressureOptions) { o.Runs = 0 },
		"9 pods: want 10":          func(o *PressureOptions) { o.NumMisbehaving = 6 },
		"of other services":        func(o *PressureOptions) { o.Mesh.Services = 1 },
		"there are marks for":      func(o *PressureOptions) { o.Changes, o.Runs = 1000, 100 },
		"10 sidecars: want 1 to 9": func(o *PressureOptions) { o.Sidecars = 10 },
	} {
		o := good
		spoil(&o)
		require.ErrorContains(t, o.Validate(), want)
	}
}
