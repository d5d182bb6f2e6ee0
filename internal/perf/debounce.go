package perf

import (
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/terminal"
)

// stream is changes of one kind at a steady rate.
type stream struct {
	kind Kind
	// writes is how many there are, rate how many each second; each changes so many services at once, of which it marks all alike.
	writes, services int
	rate             float64
}

func (s stream) changes() int { return s.writes * s.services }

// Weather are the phases in which a debounce shows what it does: changes that come alone, as many and as often as the options say; changes
// all the time, and storms, which last so long.
func Weather(o Options, long time.Duration) (Scenario, error) {
	switch {
	case long < time.Second:
		return Scenario{}, fmt.Errorf("storms of %v: want a second at least", long)
	case o.Mesh.Services < stormServices || o.Mesh.VirtualServices < stormRoutes:
		return Scenario{}, fmt.Errorf("storms are of %d services, %d with a VirtualService: want --services and --virtual-services so", stormServices, stormRoutes)
	}
	const steady, storm = 40, 500
	lasting := func(kind Kind, rate float64, services int) stream {
		return stream{kind: kind, writes: int(rate * long.Seconds()), services: services, rate: rate}
	}
	s := Scenario{Name: "debounce", steps: []step{connecting()}}
	all := load.Marker(0)
	for _, phase := range []struct {
		name string
		stream
	}{
		{"an endpoint, alone", stream{Endpoints, o.Changes, 1, o.Rate}},
		{"a route, alone", stream{Routes, o.Changes, 1, o.Rate}},
		{"endpoints, 40 a second", lasting(Endpoints, steady, 1)},
		{"routes, 40 a second", lasting(Routes, steady, 1)},
		{"endpoints, 5,000 a second", lasting(Endpoints, storm, stormServices)},
		{"routes, 1,000 a second", lasting(Routes, storm, stormRoutes)},
	} {
		all += load.Marker(phase.writes)
		s.steps = append(s.steps, streaming(phase.name, phase.stream))
	}
	if all > load.MaxMarker {
		return s, fmt.Errorf("storms of %v: there are marks for %d changes, and these are %d", long, load.MaxMarker, all)
	}
	return s, nil
}

// stormServices and stormRoutes are how many services a storm changes at once.
const (
	stormServices = 10
	stormRoutes   = 2
)

// Debounced is what one setting has led to.
type Debounced struct {
	// Setting is the environment of the control plane, as far as the debounce is concerned.
	Setting string `json:"setting"`
	Report  Report `json:"report"`
}

// DebounceTable puts the settings below each other, phase by phase.
func DebounceTable(all []Debounced) terminal.Table {
	t := terminal.Table{Header: []string{"", "CHANGES", "TO SIDECAR, P50", "P99", "TO LAST, P99", "PUSHES", "CPU SECONDS"}}
	if len(all) == 0 {
		return t
	}
	for i, phase := range all[0].Report.Phases {
		if phase.Latency == nil {
			continue
		}
		t.Rows = append(t.Rows, []terminal.Cell{{Text: phase.Name, Style: terminal.Bold}, {}, {}, {}, {}, {}, {}})
		for _, d := range all {
			if i >= len(d.Report.Phases) {
				continue
			}
			p := &d.Report.Phases[i]
			t.Row("  "+d.Setting, count(int64(p.Changes)), short(time.Duration(p.Latency.P50)), short(time.Duration(p.Latency.P99)),
				short(time.Duration(p.Last.P99)), fmt.Sprintf("%.1f", p.Pushes()), fmt.Sprintf("%.2f", p.CPU.Float()))
		}
	}
	return t
}

// Pushes is how many responses each sidecar got.
func (p *Phase) Pushes() float64 { return float64(p.Responses) / float64(max(p.Sidecars, 1)) }
