package lab

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// Comparison is two reports of one lab side by side.
type Comparison struct {
	Lab string `json:"lab"`
	// A and B are the versions of Lateen.
	A string `json:"a"`
	B string `json:"b"`
	// Differences list how the runs differ beside their versions. Their figures may not be
	// comparable then.
	Differences []string `json:"differences,omitempty"`
	Figures     []Pair   `json:"figures"`
}

// Pair is one figure of both reports. One that was not measured is nil.
type Pair struct {
	Table  string   `json:"table"`
	Row    string   `json:"row"`
	Figure string   `json:"figure"`
	Unit   Unit     `json:"unit"`
	A      *float64 `json:"a,omitempty"`
	B      *float64 `json:"b,omitempty"`
}

// Compare puts the figures that both reports have side by side, in the order of the first.
func Compare(a, b Report) (Comparison, error) {
	c := Comparison{Lab: a.Lab, A: a.Lateen, B: b.Lateen}
	if a.Lab != b.Lab {
		return c, fmt.Errorf("the first report is of lab %s, the second of lab %s: want two of one lab", a.Lab, b.Lab)
	}
	for _, d := range []struct{ what, a, b string }{
		{"machine", machine(a.Machine), machine(b.Machine)},
		{"share of the published size", fmt.Sprint(a.Scale), fmt.Sprint(b.Scale)},
	} {
		if d.a != d.b {
			c.Differences = append(c.Differences, fmt.Sprintf("%s: %s and %s", d.what, d.a, d.b))
		}
	}
	for _, t := range a.Tables {
		for _, r := range t.Rows {
			for i, column := range t.Columns {
				if theirs, ok := b.cell(t.Title, r.Name, column); ok {
					c.Figures = append(c.Figures, Pair{
						Table: t.Title, Row: r.Name, Figure: column.Name, Unit: column.Unit,
						A: r.Cells[i].Ours, B: theirs.Ours,
					})
				}
			}
		}
	}
	if len(c.Figures) == 0 {
		return c, fmt.Errorf("the reports of lab %s have no figure in common: they are of versions that differ", a.Lab)
	}
	return c, nil
}

// cell finds a figure by its names.
func (r Report) cell(title, row string, column Column) (Cell, bool) {
	for _, t := range r.Tables {
		at := slices.Index(t.Columns, column)
		if t.Title != title || at < 0 {
			continue
		}
		for _, found := range t.Rows {
			if found.Name == row {
				return found.Cells[at], true
			}
		}
	}
	return Cell{}, false
}

// Terminal returns the comparison as a table. A ratio of 10 says that A has ten times what B has.
func (c Comparison) Terminal() terminal.Table {
	t := terminal.Table{Header: []string{"", "A: " + c.A, "B: " + c.B, "A / B"}, Prose: terminal.AllColumns}
	begun := [2]string{}
	for _, f := range c.Figures {
		if now := [2]string{f.Table, f.Row}; now != begun {
			if f.Table != begun[0] && f.Table != "" {
				t.Row(f.Table)
			}
			t.Row(f.Row)
			begun = now
		}
		ratio := none
		if f.A != nil && f.B != nil && *f.B != 0 {
			ratio = fmt.Sprintf("%.3g", *f.A / *f.B)
		}
		t.Row("  "+f.Figure, f.format(f.A), f.format(f.B), ratio)
	}
	return t
}

func (p Pair) format(v *float64) string {
	if v == nil {
		return none
	}
	return p.Unit.Format(*v)
}
