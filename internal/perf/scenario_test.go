package perf

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

func names(r Report) (names []string) {
	for _, p := range r.Phases {
		names = append(names, p.Name)
	}
	return names
}

func TestEachChangeArrivesAtEachSidecar(t *testing.T) {
	for _, kind := range []Kind{Endpoints, Routes, Services} {
		f := newFake()
		r, err := Run(t.Context(), f.options(load.Shape{Namespaces: 2, Services: 4}, 5), Steady(kind))
		require.NoError(t, err)
		require.Equal(t, []string{"load", "connect", string(kind)}, names(r))
		last := r.Phases[2]
		require.Equal(t, 15, last.Latency.Count, kind)
		require.Equal(t, 3, last.Last.Count)
		require.Equal(t, 5, r.Phases[1].Ready.Count)
		require.Positive(t, last.Received)
		require.True(t, f.closed)
	}
}

func TestIsolatedNamespacesHaveTheirOwnChangesAlone(t *testing.T) {
	f := newFake()
	r, err := Run(t.Context(), f.options(load.Shape{Namespaces: 2, Services: 4, Pods: 8, Isolated: true}, 7),
		Namespaces())
	require.NoError(t, err)
	for _, p := range r.Phases[2:] {
		require.Equal(t, 3*4, p.Latency.Count, "%s: 4 of 7 sidecars are in the namespace", p.Name)
	}
}

// TestChurnIsSeenByThoseThatStay: of 8 sidecars 4 go and come, one after another.
func TestChurnIsSeenByThoseThatStay(t *testing.T) {
	f := newFake()
	r, err := Run(t.Context(), f.options(load.Shape{Namespaces: 1, Services: 1}, 8), Churn(50))
	require.NoError(t, err)
	churn := r.Phases[2]
	require.Equal(t, 4, churn.Changes)
	require.Equal(t, 4*7, churn.Latency.Count)
	require.Equal(t, 4, churn.Ready.Count)
	require.Equal(t, 4*7, churn.Removal.Count, "each removal comes to all but the pod itself")
	require.Equal(t, 4, churn.LastRemoval.Count)
	require.Len(t, f.pods, 8)
	require.Equal(t, 50, r.Capacity[0].Churn)
	require.Equal(t, 8, r.Capacity[0].Sidecars)
}

func TestRestartIsProfiledAndMeasured(t *testing.T) {
	f := newFake()
	o := f.options(load.Shape{Namespaces: 1, Services: 1}, 3)
	var profiled []string
	o.Profile = func(phase string, _ []byte) error { profiled = append(profiled, phase); return nil }
	r, err := Run(t.Context(), o, Restart())
	require.NoError(t, err)
	require.Equal(t, []string{"connect", "restart"}, profiled)
	require.Equal(t, 1, f.restarts)
	require.Equal(t, 3, r.Phases[2].Ready.Count)
}

func TestAllIsDoneInTurn(t *testing.T) {
	for _, warms := range []bool{false, true} {
		f := newFake()
		f.warms = warms
		o := f.options(load.Shape{Namespaces: 2, Services: 2, Gateways: true}, 2)
		var profiled []string
		o.Profile = func(phase string, _ []byte) error { profiled = append(profiled, phase); return nil }
		r, err := Run(t.Context(), o, All())
		require.NoError(t, err)
		want := []string{"connect", "endpoints", "routes", "create-services", "connect again", "restart"}
		if warms {
			want = slices.Insert(want, 4, "warm")
		}
		require.Equal(t, want, profiled)
		require.Equal(t, append([]string{"load"}, want...), names(r))
		for _, p := range r.Phases[len(r.Phases)-2:] {
			require.Equal(t, 2+2, p.Ready.Count, "%s: sidecars and gateways", p.Name)
			require.Equal(t, 4, p.Sidecars)
		}
	}
}

func TestAChangeWaitsForTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		written := 0
		f.swallows = func(c source.Change) bool {
			written++
			return written == 2
		}
		o := f.options(load.Shape{Namespaces: 1, Services: 1}, 3)
		o.OneAtATime = true
		_, err := Run(t.Context(), o, Steady(Routes))
		require.ErrorContains(t, err, "1 of 2 are done")
		require.Equal(t, 2, written)
	})
}

func TestAChangeThatNeverArrivesFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.swallows = func(c source.Change) bool { return c.Key.Kind == kinds.VirtualService }
		r, err := Run(t.Context(), f.options(load.Shape{Namespaces: 1, Services: 1}, 3), Steady(Routes))
		require.ErrorIs(t, err, errStalled)
		require.ErrorContains(t, err, "routes: nothing has happened for 1m0s: 0 of 3 are done")
		require.Equal(t, []string{"load", "connect"}, names(r))
		require.True(t, f.closed)
	})
}

// TestFindCapacity: the fake has a MiB for each sidecar.
func TestFindCapacity(t *testing.T) {
	f := newFake()
	o := f.options(load.Shape{Namespaces: 1, Services: 1}, 10)
	plane := o.Plane
	o.Plane = func() controlplane.Plane { clear(f.pods); return plane() }
	r, err := FindCapacity(t.Context(), o, Churn(0), Limits{P99: time.Hour, Memory: 13 << 20, From: 4, Most: 100})
	require.NoError(t, err)
	var tried []int
	for _, c := range r.Capacity {
		tried = append(tried, c.Sidecars)
		require.Equal(t, c.Sidecars <= 13, c.Sustained)
	}
	require.Equal(t, []int{4, 8, 16, 12, 14, 13, 13}, tried, "the last is the result")
	require.Equal(t, "14 MiB, want 13 at most", r.Capacity[4].Why)
	require.Equal(t, 13, r.Phases[2].Sidecars)
}

func TestOptionsThatCannotBeAreTold(t *testing.T) {
	for want, edit := range map[string]func(*Options){
		"want 1 to 4, one for each pod": func(o *Options) { o.Sidecars = 5 },
		"0 changes":                     func(o *Options) { o.Changes = 0 },
		"a rate is":                     func(o *Options) { o.Rate = -1 },
		"namespace":                     func(o *Options) { o.Mesh.Namespaces = 0 },
	} {
		o := newFake().options(load.Shape{Namespaces: 1, Services: 1}, 4)
		require.NoError(t, o.Validate())
		edit(&o)
		require.ErrorContains(t, o.Validate(), want)
	}
}

func summaryOf(ms ...int) *measure.Summary {
	d := measure.NewDistribution()
	for _, n := range ms {
		d.Add(time.Duration(n) * time.Millisecond)
	}
	return d.Summary()
}

func example() Report {
	return Report{
		Scenario:     "churn",
		Command:      "lateen perf churn --sidecars 1000",
		Lateen:       "v1",
		ControlPlane: controlplane.Description{Name: "lateen", Source: "in memory"},
		Machine:      measure.Machine{OS: "linux", Arch: "amd64", Cores: 2, Memory: 24 << 30, Go: "go1"},
		Mesh:         load.Shape{Namespaces: 1, Services: 1, Pods: 1000},
		Capacity: []Capacity{
			{Services: 1, Churn: 25, Rate: 39.95, Sidecars: 1000, Memory: 98_765_432, Cores: 0.456,
				P99: Seconds(123_456 * time.Microsecond), Sustained: true},
			{Services: 1, Sidecars: 2000, Memory: 1_987_654_321, Cores: 1.5, P99: Seconds(1500 * time.Millisecond),
				Why: "p99 1.5s, want 1s at most"},
		},
		Phases: []Phase{
			{Name: "load", Time: Seconds(90 * time.Millisecond), CPU: Seconds(50 * time.Millisecond),
				Resident: 50_000_000},
			{
				Name: "churn", Sidecars: 1000, Changes: 250, Time: Seconds(12 * time.Second), Latency: summaryOf(
					1,
					2,
					30,
					40,
				), Last: summaryOf(30, 40), Ready: summaryOf(5), Removal: summaryOf(3, 9), LastRemoval: summaryOf(9),
				Rate:           39.95,
				CPU:            Seconds(3 * time.Second),
				LoadCPU:        Seconds(2 * time.Second),
				Received:       123_456_789,
				Sent:           4321,
				Responses:      249_000,
				RefusedStreams: 3,
				Allocated:      5_000_000,
				Allocations:    40_000,
				GCTime:         Seconds(90 * time.Millisecond),
				Resident:       90_000_000,
				Peak:           98_765_432,
				LoadResident:   70_000_000,
				Sockets:        4096,
				PeakSockets:    8192,
			},
		},
	}
}

func TestTablesFitATerminal(t *testing.T) {
	r := example()
	var out strings.Builder
	w := terminal.New(&out, func(string) string { return "" })
	w.Line("%s", r.Title())
	w.Table(r.CapacityTable())
	w.Table(r.PhaseTable())
	golden.File(t, "testdata/tables.txt", out.String())
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len([]rune(line)), 100, "%q fits a terminal", line)
	}
}

func TestJSONReportIsStable(t *testing.T) {
	encoded, err := json.MarshalIndent(example(), "", "  ")
	require.NoError(t, err)
	golden.File(t, "testdata/report.json", string(encoded)+"\n")
}
