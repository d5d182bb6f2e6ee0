package htmlreport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// dataPlaneSections has a section for the reports of each setup. Those of one setup are side by
// side.
func dataPlaneSections(all []dataplane.Report) []htmlpage.Section {
	return sections(all, dataPlaneSection, func(r dataplane.Report) string {
		setup, _, _ := strings.Cut(r.Title(), "\n")
		return setup
	})
}

func dataPlaneSection(setup string, all []dataplane.Report) htmlpage.Section {
	s := htmlpage.Section{Title: "Data plane: " + setup}
	var names []string
	for _, r := range all {
		names = append(names, "lateen "+r.Lateen)
	}
	names = unique(names)
	summary := htmlpage.Table{Header: []string{
		"version", "path", "connections", "requests/s", "p50 ms", "p90", "p99", "p99.9", "p99 added",
	}}
	for i, r := range all {
		s.Lines = append(s.Lines, fmt.Sprintf("%s: %s, %d rounds of %gs, %d CPUs (%s). %s", names[i],
			r.Start.Format("2006-01-02 15:04 MST"), r.Rounds, r.Duration.Float(), r.Machine.Cores, r.Machine.CPU,
			r.Command))
		for _, c := range r.Cases {
			for _, statement := range c.Statements {
				s.Lines = append(s.Lines, fmt.Sprintf("%s, %d connections: %s", names[i], c.Connections,
					statement.Text))
			}
			for _, p := range c.Paths {
				summary.Rows = append(summary.Rows, latencyRow(names[i], c, p))
			}
		}
	}
	s.Charts = append(latencyCharts(all, names), proxyCharts(all, names)...)
	s.Charts = slices.DeleteFunc(s.Charts, htmlpage.Chart.IsEmpty)
	s.Tables = []htmlpage.Table{summary}
	return s
}

func latencyRow(name string, c dataplane.Case, p dataplane.PathResult) []string {
	added := ""
	if p.Added != nil {
		added = fmt.Sprintf("%+.2f", 1000*p.Added.P99.Float())
	}
	ms := func(s measure.Seconds) string { return fmt.Sprintf("%.2f", 1000*s.Float()) }
	l := p.Latency
	return []string{name, p.Path, fmt.Sprint(c.Connections), fmt.Sprintf("%.0f", p.QPS), ms(l.P50), ms(l.P90),
		ms(l.P99), ms(l.P999), added}
}

// caseKey is one number of requests a second over one number of connections.
type caseKey struct {
	qps         float64
	connections int
}

func (k caseKey) String() string {
	if k.qps == 0 {
		return fmt.Sprintf("as many requests as get answers, %d connections", k.connections)
	}
	return fmt.Sprintf("%g requests/s, %d connections", k.qps, k.connections)
}

func casesOf(all []dataplane.Report) (keys []caseKey) {
	for _, r := range all {
		for _, c := range r.Cases {
			if k := (caseKey{c.QPS, c.Connections}); !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

func caseOf(r dataplane.Report, k caseKey) *dataplane.Case {
	for i, c := range r.Cases {
		if k == (caseKey{c.QPS, c.Connections}) {
			return &r.Cases[i]
		}
	}
	return nil
}

// latencyCharts has a chart of percentiles for each case, and one over all connections.
func latencyCharts(all []dataplane.Report, names []string) (charts []htmlpage.Chart) {
	keys := casesOf(all)
	over := htmlpage.Chart{Title: "p99 by connections", Unit: "ms", Line: true}
	for _, k := range keys {
		over.Categories = append(over.Categories, fmt.Sprint(k.connections))
		c := htmlpage.Chart{
			Title: "Latency: " + k.String(), Unit: "ms", Categories: []string{"p50", "p75", "p90", "p99", "p99.9"},
		}
		for i, r := range all {
			found := caseOf(r, k)
			if found == nil {
				continue
			}
			for _, p := range found.Paths {
				l := p.Latency
				values := milliseconds(l.P50, l.P75, l.P90, l.P99, l.P999)
				c.Series = append(c.Series, htmlpage.Series{Name: names[i] + " " + p.Path, Values: values})
			}
		}
		charts = append(charts, c)
	}
	if len(keys) < 2 {
		return charts
	}
	for i, r := range all {
		for _, path := range dataplane.AllPaths() {
			s := htmlpage.Series{Name: names[i] + " " + path}
			measured := false
			for _, k := range keys {
				v := p99Of(caseOf(r, k), path)
				s.Values, measured = append(s.Values, v), measured || v != nil
			}
			if measured {
				over.Series = append(over.Series, s)
			}
		}
	}
	return append(charts, over)
}

func milliseconds(times ...measure.Seconds) (out []*float64) {
	for _, t := range times {
		ms := 1000 * t.Float()
		out = append(out, &ms)
	}
	return out
}

func p99Of(c *dataplane.Case, path string) *float64 {
	if c == nil {
		return nil
	}
	for _, p := range c.Paths {
		if p.Path == path {
			return milliseconds(p.Latency.P99)[0]
		}
	}
	return nil
}

// proxyCharts has the CPU and the memory of each proxy, of the first case of each report.
func proxyCharts(all []dataplane.Report, names []string) []htmlpage.Chart {
	cpu := htmlpage.Chart{Title: "CPU of a proxy for 1,000 requests/s", Unit: "vCPU"}
	memory := htmlpage.Chart{Title: "Memory of a proxy", Unit: "MB"}
	for i, r := range all {
		if len(r.Cases) == 0 {
			continue
		}
		cores, resident := htmlpage.Series{Name: names[i]}, htmlpage.Series{Name: names[i]}
		var categories []string
		for _, p := range r.Cases[0].Paths {
			for _, x := range p.Proxies {
				categories = append(categories, p.Path+": "+x.Name)
				c, m := x.Cores(), float64(x.Resident)/1e6
				cores.Values, resident.Values = append(cores.Values, &c), append(resident.Values, &m)
			}
		}
		if len(categories) > len(cpu.Categories) {
			cpu.Categories, memory.Categories = categories, categories
		}
		cpu.Series, memory.Series = append(cpu.Series, cores), append(memory.Series, resident)
	}
	return []htmlpage.Chart{cpu, memory}
}
