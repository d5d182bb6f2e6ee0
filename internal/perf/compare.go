package perf

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// ParseReport reads a report, from JSON or YAML.
func ParseReport(encoded []byte) (Report, error) {
	var r Report
	if err := yaml.Unmarshal(encoded, &r); err != nil {
		return r, fmt.Errorf("this is no report of lateen perf: %w", err)
	}
	if len(r.Phases) == 0 {
		return r, errors.New("this is no report of lateen perf: it has no phases; want what -o json or -o yaml writes")
	}
	return r, nil
}

// ParseBeside reads the result of a run that measured two control planes, from JSON or YAML.
func ParseBeside(encoded []byte) (b Beside, err error) {
	if err := yaml.Unmarshal(encoded, &b); err != nil {
		return b, fmt.Errorf("these are no two reports of lateen perf: %w", err)
	}
	if len(b.A.Phases) == 0 || len(b.B.Phases) == 0 {
		return b, errors.New(
			"these are no two reports of lateen perf: want what --beside-lateen -o json has written, or the files " +
				"of two runs",
		)
	}
	return b, nil
}

// Comparison puts two reports side by side: how much more or less the second one uses.
type Comparison struct {
	A controlPlaneOf `json:"a"`
	B controlPlaneOf `json:"b"`
	// Differences list how the two runs differ in their setup. Their numbers may not be comparable
	// then.
	Differences []string          `json:"differences,omitempty"`
	Phases      []PhaseComparison `json:"phases"`
}

// controlPlaneOf identifies the control plane of a report.
type controlPlaneOf struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Command string `json:"command"`
}

// Beside is the result of one run that measured two control planes in succession with the same
// mesh.
type Beside struct {
	A          Report     `json:"a"`
	B          Report     `json:"b"`
	Comparison Comparison `json:"comparison"`
}

// PhaseComparison compares one phase.
type PhaseComparison struct {
	Name string  `json:"name"`
	Rows []Ratio `json:"rows"`
}

// Ratio is one number of both reports. Unit is "s", "B", or empty for counts. Costs are means per
// change or per sidecar, because the runs may have had different numbers of them.
type Ratio struct {
	Name string  `json:"name"`
	Unit string  `json:"unit,omitempty"`
	A    float64 `json:"a"`
	B    float64 `json:"b"`
}

// Compare puts phases of the same name side by side.
func Compare(a, b Report) (Comparison, error) {
	c := Comparison{A: whose(a), B: whose(b), Differences: differences(a, b)}
	for i := range a.Phases {
		for j := range b.Phases {
			if p := (PhaseComparison{Name: a.Phases[i].Name}); p.Name == b.Phases[j].Name {
				p.Rows = ratios(&a.Phases[i], &b.Phases[j])
				c.Phases = append(c.Phases, p)
				break
			}
		}
	}
	if len(c.Phases) == 0 {
		return c, fmt.Errorf("the reports have no phase in common: %s, and %s", phaseNames(a), phaseNames(b))
	}
	return c, nil
}

func whose(r Report) controlPlaneOf {
	return controlPlaneOf{Name: r.ControlPlane.Name, Version: r.ControlPlane.Version, Command: r.Command}
}

func phaseNames(r Report) string {
	var names []string
	for _, p := range r.Phases {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func differences(a, b Report) (all []string) {
	differ := func(what string, a, b any) {
		if a != b {
			all = append(all, fmt.Sprintf("%s: %v, and %v", what, a, b))
		}
	}
	differ("scenario", a.Scenario, b.Scenario)
	differ("mesh", fmt.Sprintf("%+v", a.Mesh), fmt.Sprintf("%+v", b.Mesh))
	differ("CPUs", cpus(a.Machine), cpus(b.Machine))
	differ("objects from", a.ControlPlane.Source, b.ControlPlane.Source)
	differ("sidecars", mostSidecars(a), mostSidecars(b))
	return all
}

func cpus(m measure.Machine) string { return strings.TrimSpace(fmt.Sprintf("%d %s", m.Cores, m.CPU)) }

func mostSidecars(r Report) (most int) {
	for _, p := range r.Phases {
		most = max(most, p.Sidecars)
	}
	return most
}

// ratios returns the numbers that both phases have.
func ratios(a, b *Phase) (rows []Ratio) {
	for _, n := range comparedNumbers() {
		if n.name == "time" && a.Name == loadPhase {
			continue // one of the runs may have found the mesh already written
		}
		if x, y := n.of(a), n.of(b); x > 0 && y > 0 {
			name, _ := strings.CutSuffix(n.name, perChangeSuffix)
			if a.Changes > 0 || b.Changes > 0 {
				name = n.name
			}
			rows = append(rows, Ratio{Name: name, Unit: n.unit, A: x, B: y})
		}
	}
	return rows
}

// perChangeSuffix ends the names of numbers that are divided by the number of changes.
const perChangeSuffix = ", of a change"

// comparedNumber is a number by which phases are compared. It is 0 if a phase has none.
type comparedNumber struct {
	name, unit string
	of         func(p *Phase) float64
}

func comparedNumbers() []comparedNumber {
	each := func(of func(p *Phase) float64) func(p *Phase) float64 {
		return func(p *Phase) float64 { return of(p) / float64(max(p.Changes, 1)) }
	}
	quantile := func(of func(p *Phase) *measure.Summary, q func(s *measure.Summary) Seconds) func(p *Phase) float64 {
		return func(p *Phase) float64 {
			if s := of(p); s != nil {
				return q(s).Float()
			}
			return 0
		}
	}
	latency := func(p *Phase) *measure.Summary { return p.Latency }
	last := func(p *Phase) *measure.Summary { return p.Last }
	p50 := func(s *measure.Summary) Seconds { return s.P50 }
	p99 := func(s *measure.Summary) Seconds { return s.P99 }
	return []comparedNumber{
		{"time", "s", func(p *Phase) float64 { return p.Time.Float() }},
		{"CPU" + perChangeSuffix, "s", each(func(p *Phase) float64 { return p.CPU.Float() })},
		{"bytes to sidecars" + perChangeSuffix, "B", each(func(p *Phase) float64 { return float64(p.Received) })},
		{"bytes from sidecars" + perChangeSuffix, "B", each(func(p *Phase) float64 { return float64(p.Sent) })},
		{"responses" + perChangeSuffix, "", each(func(p *Phase) float64 { return float64(p.Responses) })},
		{"change to sidecar, p50", "s", quantile(latency, p50)},
		{"change to sidecar, p99", "s", quantile(latency, p99)},
		{"change to last sidecar, median", "s", quantile(last, p50)},
		{"change to last sidecar, worst", "s", quantile(last, func(s *measure.Summary) Seconds { return s.Max })},
		{"removal to sidecar, p99", "s", quantile(func(p *Phase) *measure.Summary { return p.Removal }, p99)},
		{"sidecar in sync after, p50", "s", quantile(func(p *Phase) *measure.Summary { return p.Ready }, p50)},
		{"memory", "B", func(p *Phase) float64 { return float64(p.Resident) }},
		{"memory at its peak so far, with the kernel's sockets", "B", func(p *Phase) float64 {
			return float64(
				max(p.Peak, p.Resident) + p.PeakSockets,
			)
		}},
	}
}

// Table has a row for each number, with the second report's value as a multiple of the first's.
func (c Comparison) Table() terminal.Table {
	t := terminal.Table{Header: []string{"", "A: " + c.A.Name, "B: " + c.B.Name, "A / B"}}
	for _, p := range c.Phases {
		t.Rows = append(t.Rows, []terminal.Cell{{Text: p.Name, Style: terminal.Bold}, {}, {}, {}})
		for _, r := range p.Rows {
			t.Row("  "+r.Name, r.show(r.A), r.show(r.B), ratioText(r.A/r.B))
		}
	}
	return t
}

func (r Ratio) show(v float64) string {
	switch r.Unit {
	case "s":
		return formatDuration(time.Duration(v * float64(time.Second)))
	case "B":
		return formatBytes(int64(v))
	}
	return formatCount(int64(v + 0.5))
}

// ratioText formats a ratio with two or three digits.
func ratioText(ratio float64) string {
	if ratio >= 100 {
		return formatCount(int64(ratio + 0.5))
	}
	return fmt.Sprintf("%.2g", ratio)
}

// Title names the two control planes.
func (c Comparison) Title() string {
	line := func(name string, o controlPlaneOf) string {
		return fmt.Sprintf("%s: %s %s: %s", name, o.Name, cmp.Or(o.Version, "of unknown version"), o.Command)
	}
	return line("A", c.A) + "\n" + line("B", c.B)
}
