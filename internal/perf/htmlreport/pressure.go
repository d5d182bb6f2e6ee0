package htmlreport

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
)

// pressureSections has one section for all reports of changes beside sidecars that misbehave.
func pressureSections(all []perf.PressureReport) []htmlpage.Section {
	if len(all) == 0 {
		return nil
	}
	s := htmlpage.Section{Title: "Pressure"}
	c := htmlpage.Chart{Title: "Change to sidecar, p99, times that of a run alone", Unit: "times"}
	var labels []string
	for _, r := range all {
		labels = append(labels, r.ControlPlane.Name+" "+r.Lateen)
		for _, row := range r.Rows {
			if name := string(row.Disturbance); !slices.Contains(c.Categories, name) {
				c.Categories = append(c.Categories, name)
			}
		}
	}
	labels = unique(labels)
	for i, r := range all {
		series := htmlpage.Series{Name: labels[i], Values: make([]*float64, len(c.Categories))}
		for _, row := range r.Rows {
			ratio := row.Ratio()
			series.Values[slices.Index(c.Categories, string(row.Disturbance))] = &ratio
		}
		c.Series = append(c.Series, series)
		s.Lines = append(append(s.Lines, labels[i]+": "+r.Command), r.Notes()...)
		s.Tables = append(s.Tables, tableOf(labels[i], r.Table()))
	}
	s.Charts = []htmlpage.Chart{c}
	return []htmlpage.Section{s}
}

// knobSections has one section for all reports of what metrics, logs and traces cost.
func knobSections(all []dataplane.KnobReport) []htmlpage.Section {
	if len(all) == 0 {
		return nil
	}
	s := htmlpage.Section{Title: "What metrics, logs and traces cost"}
	cpu := htmlpage.Chart{Title: "CPU of both proxies for 1,000 requests/s", Unit: "vCPU"}
	ratio := htmlpage.Chart{Title: "CPU for a request, times that of everything off", Unit: "times"}
	var labels []string
	for _, r := range all {
		labels = append(labels, "lateen "+r.Lateen)
		for _, k := range r.Knobs {
			if !slices.Contains(cpu.Categories, k.Name) {
				cpu.Categories = append(cpu.Categories, k.Name)
			}
		}
	}
	ratio.Categories, labels = cpu.Categories, unique(labels)
	for i, r := range all {
		cores, times := make([]*float64, len(cpu.Categories)), make([]*float64, len(cpu.Categories))
		for _, k := range r.Knobs {
			at, both, of := slices.Index(cpu.Categories, k.Name), k.Caller+k.Called, k.Ratio
			cores[at], times[at] = &both, &of
		}
		cpu.Series = append(cpu.Series, htmlpage.Series{Name: labels[i], Values: cores})
		ratio.Series = append(ratio.Series, htmlpage.Series{Name: labels[i], Values: times})
		s.Lines = append(append(s.Lines, labels[i]+": "+r.Command), r.Notes...)
		s.Tables = append(s.Tables, tableOf(labels[i], r.Table()))
	}
	s.Charts = []htmlpage.Chart{cpu, ratio}
	return []htmlpage.Section{s}
}

// tableOf is a table that a command prints, with a name in place of its first heading.
func tableOf(name string, t terminal.Table) htmlpage.Table {
	out := htmlpage.Table{Header: append([]string{name}, t.Header[1:]...)}
	for _, cells := range t.Rows {
		var row []string
		for _, c := range cells {
			row = append(row, c.Text)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
