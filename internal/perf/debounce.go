package perf

import (
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/load"
)

// steadyChanges describes changes of one kind at a steady rate.
type steadyChanges struct {
	kind Kind
	// writes is the number of writes, and rate how many there are each second. Each write changes
	// so many services, with the same marker.
	writes, services int
	rate             float64
}

func (s steadyChanges) changes() int { return s.writes * s.services }

// DebounceScenario returns the phases that show the effect of a debounce: single changes at
// Options.Rate, then constant changes and change storms, each for the given time.
func DebounceScenario(o Options, long time.Duration) (Scenario, error) {
	switch {
	case long < time.Second:
		return Scenario{}, fmt.Errorf("storms of %v: want a second at least", long)
	case o.Mesh.Services < stormServices || o.Mesh.VirtualServices < stormRoutes:
		return Scenario{}, fmt.Errorf(
			"storms are of %d services, %d with a VirtualService: want --services and --virtual-services so",
			stormServices,
			stormRoutes,
		)
	}
	const steady, storm = 40, 500
	lasting := func(kind Kind, rate float64, services int) steadyChanges {
		return steadyChanges{kind: kind, writes: int(rate * long.Seconds()), services: services, rate: rate}
	}
	s := Scenario{Name: "debounce", steps: []step{connectStep()}}
	all := load.Marker(0)
	for _, phase := range []struct {
		name string
		steadyChanges
	}{
		{"an endpoint, alone", steadyChanges{Endpoints, o.Changes, 1, o.Rate}},
		{"a route, alone", steadyChanges{Routes, o.Changes, 1, o.Rate}},
		{"endpoints, 40 a second", lasting(Endpoints, steady, 1)},
		{"routes, 40 a second", lasting(Routes, steady, 1)},
		{"endpoints, 5,000 a second", lasting(Endpoints, storm, stormServices)},
		{"routes, 1,000 a second", lasting(Routes, storm, stormRoutes)},
	} {
		all += load.Marker(phase.writes)
		s.steps = append(s.steps, steadyStep(phase.name, phase.steadyChanges))
	}
	if all > load.MaxMarker {
		return s, fmt.Errorf(
			"storms of %v: there are marks for %d changes, and these are %d", long, load.MaxMarker, all,
		)
	}
	return s, nil
}

// stormServices and stormRoutes are how many services one write of a change storm modifies.
const (
	stormServices = 10
	stormRoutes   = 2
)

// Debounced is the result of one debounce setting.
type Debounced struct {
	// Setting lists the environment variables of the control plane that set the debounce.
	Setting string `json:"setting"`
	Report  Report `json:"report"`
}

// DebounceTable lists the results of the settings, phase by phase.
func DebounceTable(all []Debounced) terminal.Table {
	t := terminal.Table{
		Header: []string{"", "CHANGES", "TO SIDECAR, P50", "P99", "TO LAST, P99", "PUSHES", "CPU SECONDS"},
	}
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
			t.Row("  "+d.Setting, formatCount(int64(p.Changes)), formatDuration(
				time.Duration(p.Latency.P50),
			), formatDuration(time.Duration(p.Latency.P99)),
				formatDuration(
					time.Duration(p.Last.P99),
				), fmt.Sprintf("%.1f", p.Pushes()), fmt.Sprintf("%.2f", p.CPU.Float()))
		}
	}
	return t
}

// Pushes returns how many responses each sidecar received on average.
func (p *Phase) Pushes() float64 { return float64(p.Responses) / float64(max(p.Sidecars, 1)) }
