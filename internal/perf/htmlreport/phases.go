package htmlreport

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// phaseSections has a section for the reports of each scenario with simulated sidecars. Those of
// one scenario are side by side.
func phaseSections(all []labelled) (out []htmlpage.Section) {
	var scenarios []string
	by := map[string][]labelled{}
	for _, l := range all {
		if by[l.report.Scenario] == nil {
			scenarios = append(scenarios, l.report.Scenario)
		}
		by[l.report.Scenario] = append(by[l.report.Scenario], l)
	}
	for _, s := range scenarios {
		out = append(out, phaseSection(s, by[s]))
	}
	return out
}

// number is one number of a phase, in a unit.
type number struct {
	title, unit string
	of          func(p *perf.Phase) float64
}

func numbers() []number {
	p99 := func(s *measure.Summary) float64 {
		if s == nil {
			return 0
		}
		return 1000 * s.P99.Float()
	}
	return []number{
		{"Change to sidecar, p99", "ms", func(p *perf.Phase) float64 { return p99(p.Latency) }},
		{"Change to last sidecar, p99", "ms", func(p *perf.Phase) float64 { return p99(p.Last) }},
		{"Sidecar in sync after, p99", "ms", func(p *perf.Phase) float64 { return p99(p.Ready) }},
		{"CPU of the control plane", "s", func(p *perf.Phase) float64 { return p.CPU.Float() }},
		{"Memory of the control plane at the end", "MB", func(p *perf.Phase) float64 {
			return float64(p.Resident) / 1e6
		}},
		{"Sent to sidecars", "MB", func(p *perf.Phase) float64 { return float64(p.Received) / 1e6 }},
	}
}

func phaseSection(scenario string, all []labelled) htmlpage.Section {
	s := htmlpage.Section{Title: "Control plane: " + scenario}
	var names, phases []string
	for _, l := range all {
		names = append(names, l.label)
		for _, p := range l.report.Phases {
			if !slices.Contains(phases, p.Name) {
				phases = append(phases, p.Name)
			}
		}
	}
	names = unique(names)
	for _, n := range numbers() {
		c := htmlpage.Chart{Title: n.title, Unit: n.unit, Categories: phases}
		for i, l := range all {
			c.Series = append(c.Series, htmlpage.Series{Name: names[i], Values: valuesOf(l.report, phases, n)})
		}
		if !c.IsEmpty() {
			s.Charts = append(s.Charts, c)
		}
	}
	for i, l := range all {
		s.Lines = append(s.Lines, names[i]+": "+l.report.Command)
		s.Tables = append(s.Tables, tableOf(names[i], l.report.PhaseTable()))
	}
	return s
}

func valuesOf(r perf.Report, phases []string, n number) []*float64 {
	values := make([]*float64, len(phases))
	for i := range r.Phases {
		v := n.of(&r.Phases[i])
		values[slices.Index(phases, r.Phases[i].Name)] = &v
	}
	return values
}
