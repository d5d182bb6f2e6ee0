package sizing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// plain are constants with which one can reckon in one's head.
func plain() Constants {
	return Constants{
		BaseBytes: 50e6, ServiceBytes: 6e3, TranslatedBytes: 4e3, PodBytes: 5e3, SidecarBytes: 50e3,
		Connect: Cost{1e-3, 20e3, 5e3}, ConnectService: Cost{1e-6, 1000, 50},
		Change: map[string]Cost{"endpoints": {100e-6, 400, 100}, "routes": {200e-6, 800, 100}},
	}
}

func mesh() Mesh {
	return Mesh{Sidecars: 100_000, Services: 1000, Pods: 100_000, Seen: 1, Changes: 4, Kind: "endpoints"}
}

func limits() Limits {
	return Limits{
		Cores:       4,
		Memory:      4e9,
		Headroom:    0.5,
		Busy:        0.5,
		LastSidecar: measure.Seconds(2 * time.Second),
		Connect:     measure.Seconds(5 * time.Minute),
		Spare:       1,
	}
}

func TestAnEstimateByHand(t *testing.T) {
	e, err := plain().Estimate(mesh(), limits())
	require.NoError(t, err)
	// Steady changes may take 2 cores: 4 changes · 100 µs are 0.4 ms a second for each sidecar, so
	// 5,000 sidecars.
	require.Equal(t, "CPU of steady changes", e.LimitingFactor)
	require.Equal(t, 20+1, e.Replicas)
	r := e.Replica
	require.Equal(t, 5000, r.Sidecars)
	require.InDelta(t, 50e6+1000*10e3+100_000*5e3, r.MeshBytes, 1)
	require.InDelta(t, 5000*50e3, r.SidecarsBytes, 1)
	require.InDelta(t, 1.5*(560e6+250e6), r.MemoryBytes, 1)
	require.InDelta(t, 2, r.Cores, 1e-9)
	require.InDelta(t, 5000*4*400, r.Sent, 1e-3)
	require.InDelta(t, 5000*4*100, r.Received, 1e-3)
	require.InDelta(t, 5000*100e-6/4, r.LastSidecar.Float(), 1e-9)
	require.InDelta(t, 5000*(1e-3+1000*1e-6)/4, r.Connect.Float(), 1e-9)
	require.InDelta(t, 21*r.MemoryBytes, e.Total.MemoryBytes, 1)
	require.InDelta(t, 40, e.Total.Cores, 1e-9)
	require.InDelta(t, 100_000*(20e3+1000*1000), e.Total.ConnectBytes, 1)
}

func TestEachLimitDecides(t *testing.T) {
	for want, edit := range map[string]func(*Mesh, *Limits){
		"memory":                func(m *Mesh, l *Limits) { m.Changes, l.Memory = 0.1, 1e9 },
		"sidecars of a replica": func(m *Mesh, l *Limits) { l.Sidecars = 1000 },
		"CPU of steady changes": func(m *Mesh, l *Limits) {},
		"a change to the last sidecar": func(m *Mesh,
			l *Limits) {
			l.LastSidecar = measure.Seconds(10 * time.Millisecond)
		},
		"all sidecars connecting":     func(m *Mesh, l *Limits) { l.Connect = measure.Seconds(time.Second) },
		"none: one replica bears all": func(m *Mesh, l *Limits) { m.Sidecars = 100 },
		"CPU of steady changes ":      func(m *Mesh, l *Limits) { m.Changes = 1e6 },
	} {
		m, l := mesh(), limits()
		edit(&m, &l)
		e, err := plain().Estimate(m, l)
		require.NoError(t, err, want)
		require.Equal(t, strings.TrimSpace(want), e.LimitingFactor)
	}
}

func drawn(t *rapid.T) (Mesh, Limits) {
	m := mesh()
	m.Sidecars = rapid.IntRange(1, 2_000_000).Draw(t, "sidecars")
	m.Pods = m.Sidecars
	m.Services = rapid.IntRange(1, 20_000).Draw(t, "services")
	m.Seen = rapid.Float64Range(0.01, 1).Draw(t, "seen")
	m.Changes = rapid.Float64Range(0, 100).Draw(t, "changes")
	l := limits()
	l.Memory = 64e9
	l.Cores = rapid.Float64Range(0.5, 32).Draw(t, "cores")
	l.Spare = rapid.IntRange(0, 2).Draw(t, "spare")
	return m, l
}

// TestNoReplicaPassesALimitAndNoneIsTooMuch: with one replica less, somebody would.
func TestNoReplicaPassesALimitAndNoneIsTooMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, l := drawn(t)
		e, err := plain().Estimate(m, l)
		require.NoError(t, err)
		require.Empty(t, l.exceeded(e.Replica))
		working := e.Replicas - l.Spare
		require.GreaterOrEqual(t, e.Replica.Sidecars*working, m.Sidecars)
		if working > 1 {
			fewer := (m.Sidecars + working - 2) / (working - 1)
			require.NotEmpty(t, l.exceeded(plain().Replica(m, l, fewer)))
		}
	})
}

// TestMoreNeedsNoLess: of each of the things that a mesh has.
func TestMoreNeedsNoLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, l := drawn(t)
		before, err := plain().Estimate(m, l)
		require.NoError(t, err)
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			m.Sidecars++
			m.Pods++
		case 1:
			m.Services++
		case 2:
			m.Changes++
		case 3:
			m.Seen = min(1, 2*m.Seen)
		}
		after, err := plain().Estimate(m, l)
		require.NoError(t, err)
		require.GreaterOrEqual(t, after.Replicas, before.Replicas)
		require.GreaterOrEqual(t, after.Total.Cores, before.Total.Cores)
		require.GreaterOrEqual(t, after.Total.ConnectBytes, before.Total.ConnectBytes)
	})
}

func TestWhatCannotBeEstimatedIsTold(t *testing.T) {
	for want, edit := range map[string]func(*Mesh, *Limits){
		"at least one sidecar":                     func(m *Mesh, l *Limits) { m.Sidecars = 0 },
		"want at least one for each":               func(m *Mesh, l *Limits) { m.Pods = 5 },
		"share of 1.5 of the services":             func(m *Mesh, l *Limits) { m.Seen = 1.5 },
		`"weather" were not measured: want endpoi`: func(m *Mesh, l *Limits) { m.Kind = "weather" },
		"want 0 or more":                           func(m *Mesh, l *Limits) { m.Changes = -1 },
		"a part of a core":                         func(m *Mesh, l *Limits) { l.Cores = 0 },
		"spare replicas":                           func(m *Mesh, l *Limits) { l.Spare = -1 },
		"over the limit already: it needs 840 MB":  func(m *Mesh, l *Limits) { l.Memory = 1e6 },
	} {
		m, l := mesh(), limits()
		edit(&m, &l)
		_, err := plain().Estimate(m, l)
		require.ErrorContains(t, err, want)
	}
}

func TestStoredConstants(t *testing.T) {
	c, err := Stored()
	require.NoError(t, err)
	require.NotEmpty(t, c.Version)
	require.NotEmpty(t, c.Command)
	require.Positive(t, c.Machine.Cores)
	require.Equal(t, []string{"create-services", "endpoints", "routes"}, c.Kinds())
	for _, v := range []float64{c.BaseBytes, c.ServiceBytes, c.PodBytes, c.SidecarBytes,
		c.FirstConnection(mesh()).CPUSeconds, c.FirstConnection(mesh()).Sent} {
		require.Positive(t, v)
	}
}

func TestConstantsThatCannotBeAreTold(t *testing.T) {
	for want, text := range map[string]string{
		"unknown field":         `{"sidecar": 1}`,
		"there is no change":    `{}`,
		"podBytes is -1":        `{"podBytes": -1}`,
		"change.routes.cpuSeco": `{"sidecarBytes": 1, "change": {"routes": {}}}`,
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

func TestTable(t *testing.T) {
	var all []Estimate
	for _, n := range []int{50, 100_000, 1_000_000} {
		m, l := mesh(), limits()
		m.Sidecars, l.Memory = n, 16e9
		m.Pods = max(n, 100)
		e, err := plain().Estimate(m, l)
		require.NoError(t, err)
		all = append(all, e)
	}
	var out strings.Builder
	for _, r := range Rows(all) {
		fmt.Fprintf(&out, "%s | %s\n", r.Name, strings.Join(r.Values, " | "))
	}
	golden.File(t, "testdata/table.txt", out.String())
}
