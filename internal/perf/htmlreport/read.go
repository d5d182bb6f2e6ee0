package htmlreport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
	"github.com/lateen-mesh/lateen/internal/perf/lab"
)

// indexFile is the name of the HTML file in a directory of reports.
const indexFile = "index.html"

// Write reads all JSON files of a directory, and writes index.html beside them. It returns the
// path.
func Write(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", fmt.Errorf("%s has no *.json: want what lateen perf … --report %s writes", dir, dir)
	}
	slices.Sort(files)
	var r reports
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if err := r.add(filepath.Base(file), content); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	content, err := r.page("lateen perf: " + filepath.Base(filepath.Clean(dir))).HTML()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, indexFile)
	return path, os.WriteFile(path, content, 0o644)
}

// reports are what stands in the files.
type reports struct {
	dataPlanes []dataplane.Report
	advice     []advise.Report
	phases     []labelled
	labs       []lab.Report
	pressures  []perf.PressureReport
	knobs      []dataplane.KnobReport
	others     []other
}

// labelled is a report of a scenario with simulated sidecars, by the name of its series.
type labelled struct {
	label  string
	report perf.Report
}

// other is a file of another kind.
type other struct {
	name  string
	value any
}

// head is by what kinds of files are told apart.
type head struct {
	Kind     string          `json:"kind"`
	Phases   json.RawMessage `json:"phases"`
	A        json.RawMessage `json:"a"`
	B        json.RawMessage `json:"b"`
	Pressure json.RawMessage `json:"disturbances"`
	Settings []struct {
		Setting string      `json:"setting"`
		Report  perf.Report `json:"report"`
	} `json:"settings"`
}

func (r *reports) add(name string, content []byte) error {
	var h head
	if err := json.Unmarshal(content, &h); err != nil {
		return fmt.Errorf("want a report of lateen perf in JSON: %w", err)
	}
	switch {
	case h.Kind == dataplane.Kind:
		report, err := dataplane.ParseReport(content)
		r.dataPlanes = append(r.dataPlanes, report)
		return err
	case h.Kind == advise.Kind:
		return read(content, &r.advice)
	case h.Kind == lab.Kind:
		report, err := lab.ParseReport(content)
		r.labs = append(r.labs, report)
		return err
	case h.Kind == dataplane.KnobsKind:
		return read(content, &r.knobs)
	case h.Pressure != nil:
		return read(content, &r.pressures)
	case h.Phases != nil:
		report, err := perf.ParseReport(content)
		r.phase("", report)
		return err
	case h.A != nil && h.B != nil:
		both, err := perf.ParseBeside(content)
		r.phase("", both.A)
		r.phase("", both.B)
		return err
	case len(h.Settings) > 0:
		for _, s := range h.Settings {
			r.phase(s.Setting, s.Report)
		}
		return nil
	}
	var value any
	if err := json.Unmarshal(content, &value); err != nil {
		return err
	}
	r.others = append(r.others, other{name, value})
	return nil
}

// read appends the report in a file to those of its kind.
func read[R any](content []byte, all *[]R) error {
	var report R
	err := json.Unmarshal(content, &report)
	*all = append(*all, report)
	return err
}

func (r *reports) phase(setting string, report perf.Report) {
	label := cmp.Or(setting, report.Subject())
	if report.ControlPlane.Version == "" && setting == "" {
		label = report.ControlPlane.Name + " " + report.Lateen
	}
	r.phases = append(r.phases, labelled{label, report})
}

func (r *reports) page(title string) htmlpage.Page {
	p := htmlpage.Page{Title: title, Sections: []htmlpage.Section{}}
	p.Sections = append(p.Sections, adviceSections(r.advice)...)
	p.Sections = append(p.Sections, dataPlaneSections(r.dataPlanes)...)
	p.Sections = append(p.Sections, knobSections(r.knobs)...)
	p.Sections = append(p.Sections, phaseSections(r.phases)...)
	p.Sections = append(p.Sections, pressureSections(r.pressures)...)
	p.Sections = append(p.Sections, labSections(r.labs)...)
	p.Sections = append(p.Sections, sheetSections(r.others)...)
	for _, o := range r.others {
		if o.isSheet() {
			continue
		}
		t := htmlpage.Table{Header: []string{"field", "value"}}
		flatten(&t, "", o.value)
		p.Sections = append(p.Sections, htmlpage.Section{Title: o.name, Tables: []htmlpage.Table{t}})
	}
	return p
}

// maxRows limits the table of a file of which only the fields are known.
const maxRows = 400

// flatten adds a row for each number and text of a value.
func flatten(t *htmlpage.Table, path string, value any) {
	if len(t.Rows) >= maxRows {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			flatten(t, strings.TrimPrefix(path+"."+key, "."), v[key])
		}
	case []any:
		for i, element := range v {
			flatten(t, fmt.Sprintf("%s[%d]", path, i), element)
		}
	default:
		t.Rows = append(t.Rows, []string{path, fmt.Sprint(v)})
	}
}

// sections makes a section of the reports of each name, in the order in which the names come.
func sections[R any](
	all []R, section func(name string, reports []R) htmlpage.Section, nameOf func(R) string,
) (out []htmlpage.Section) {
	var names []string
	by := map[string][]R{}
	for _, r := range all {
		name := nameOf(r)
		if by[name] == nil {
			names = append(names, name)
		}
		by[name] = append(by[name], r)
	}
	for _, name := range names {
		out = append(out, section(name, by[name]))
	}
	return out
}

// unique makes names distinct: the second "a" becomes "a (2)".
func unique(names []string) []string {
	seen, out := map[string]int{}, make([]string, len(names))
	for i, name := range names {
		seen[name]++
		if out[i] = name; seen[name] > 1 {
			out[i] = fmt.Sprintf("%s (%d)", name, seen[name])
		}
	}
	return out
}
