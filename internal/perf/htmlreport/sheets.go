package htmlreport

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
)

// figures are all numbers of a file, by their paths: "estimates[0].replicas".
type figures map[string]float64

func (n figures) add(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			n.add(strings.TrimPrefix(path+"."+key, "."), element)
		}
	case []any:
		for i, element := range v {
			n.add(fmt.Sprintf("%s[%d]", path, i), element)
		}
	case float64:
		n[path] = v
	}
}

// sheet is a kind of reports of which single numbers are drawn, those of several reports side by
// side.
type sheet struct {
	kind, title string
	charts      []sheetChart
}

// sheetChart draws some numbers of a sheet, multiplied by a factor.
type sheetChart struct {
	title, unit string
	factor      float64
	bars        func(figures) []bar
}

// bar is a number and what it is called.
type bar struct{ name, path string }

// fixed returns the same numbers for each report.
func fixed(bars ...bar) func(figures) []bar { return func(figures) []bar { return bars } }

// sheets returns all kinds.
func sheets() []sheet {
	return []sheet{{
		kind: "control-plane", title: `The test of "Istio in Action"`,
		charts: []sheetChart{
			{"Push count", "responses", 1, fixed(bar{"pushes", "pushCount"})},
			{"Latency in the last minute, p99", "ms", 1e3, fixed(bar{"latency", "latencyP99Seconds"})},
			{"Until the last service answered", "ms", 1e3, fixed(bar{"last answer", "lastAnsweredSeconds"})},
		},
	}, {
		kind: "constants", title: "What one of each costs",
		charts: []sheetChart{
			{"Memory", "kB", 1e-3, fixed(bar{"a service", "serviceBytes"}, bar{"a service for proxies",
				"translatedBytes"}, bar{"a pod", "podBytes"}, bar{"a sidecar", "sidecarBytes"})},
			{"CPU", "µs", 1e6, costs("cpuSeconds")},
			{"To a sidecar", "kB", 1e-3, costs("bytesToSidecar")},
		},
	}, {
		kind: "model", title: "What a mesh would need",
		charts: []sheetChart{
			{"Replicas", "replicas", 1, estimates("replicas")},
			{"Cores that changes take", "cores", 1, estimates("total.cores")},
			{"Memory of all replicas", "GB", 1e-9, estimates("total.memoryBytes")},
		},
	}}
}

// costs returns one number of each cost.
func costs(of string) func(figures) []bar {
	return func(n figures) []bar {
		bars := []bar{{"a sidecar connects", "connect." + of}, {"for each service", "connectService." + of}}
		for _, path := range slices.Sorted(maps.Keys(n)) {
			kind, ok := strings.CutPrefix(strings.TrimSuffix(path, "."+of), "change.")
			if ok && !strings.Contains(kind, ".") {
				bars = append(bars, bar{"a change: " + kind, path})
			}
		}
		return bars
	}
}

// estimates returns one number of each estimated mesh.
func estimates(of string) func(figures) []bar {
	return func(n figures) (bars []bar) {
		for i := 0; ; i++ {
			at := fmt.Sprintf("estimates[%d].", i)
			sidecars, is := n[at+"mesh.sidecars"]
			if !is {
				return bars
			}
			bars = append(bars, bar{fmt.Sprintf("%.0f sidecars", sidecars), at + of})
		}
	}
}

// kindOf returns the kind that a file states.
func (o *other) kindOf() string { return o.text("kind") }

// text returns a field of a file.
func (o *other) text(field string) string {
	fields, _ := o.value.(map[string]any)
	text, _ := fields[field].(string)
	return text
}

// label names the version that a file is about, or the file.
func (o *other) label() string {
	for _, field := range []string{"lateen", "version"} {
		if version := o.text(field); version != "" {
			return "lateen " + version
		}
	}
	return o.name
}

// sheetSections has a section for each kind of sheet of which there is a file.
func sheetSections(all []other) (out []htmlpage.Section) {
	for _, s := range sheets() {
		of := slices.DeleteFunc(slices.Clone(all), func(o other) bool { return o.kindOf() != s.kind })
		if len(of) > 0 {
			out = append(out, s.section(of))
		}
	}
	return out
}

func (s *sheet) section(all []other) htmlpage.Section {
	out := htmlpage.Section{Title: s.title}
	var labels []string
	read := make([]figures, len(all))
	for i := range all {
		labels = append(labels, all[i].label())
		read[i] = figures{}
		read[i].add("", all[i].value)
	}
	labels = unique(labels)
	for _, c := range s.charts {
		if drawn := c.chart(labels, read); !drawn.IsEmpty() {
			out.Charts = append(out.Charts, drawn)
		}
	}
	for i := range all {
		t := htmlpage.Table{Header: []string{labels[i], "value"}}
		flatten(&t, "", all[i].value)
		out.Tables = append(out.Tables, t)
	}
	return out
}

// chart has a series for each report, over the categories of all.
func (c *sheetChart) chart(labels []string, all []figures) htmlpage.Chart {
	out := htmlpage.Chart{Title: c.title, Unit: c.unit}
	for _, n := range all {
		for _, b := range c.bars(n) {
			if !slices.Contains(out.Categories, b.name) {
				out.Categories = append(out.Categories, b.name)
			}
		}
	}
	for i, n := range all {
		series := htmlpage.Series{Name: labels[i], Values: make([]*float64, len(out.Categories))}
		for _, b := range c.bars(n) {
			if value, is := n[b.path]; is {
				value *= c.factor
				series.Values[slices.Index(out.Categories, b.name)] = &value
			}
		}
		out.Series = append(out.Series, series)
	}
	return out
}

// isSheet reports whether sheetSections shows a file.
func (o *other) isSheet() bool {
	return slices.ContainsFunc(sheets(), func(s sheet) bool { return s.kind == o.kindOf() })
}
