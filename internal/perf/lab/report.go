package lab

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Kind is the kind of the report in its JSON.
const Kind = "lab"

// Report is the result of a lab. Figures are in the units of their columns.
type Report struct {
	// Kind tells these reports from others: "lab".
	Kind    string          `json:"kind"`
	Lab     string          `json:"lab"`
	Command string          `json:"command,omitempty"`
	Lateen  string          `json:"lateen,omitempty"`
	Start   time.Time       `json:"start"`
	Machine measure.Machine `json:"machine"`
	// Scale is the size as a share of the published one.
	Scale  float64 `json:"scale"`
	Tables []Table `json:"tables"`
	// Notes say what a reader should know about the figures.
	Notes []string `json:"notes,omitempty"`
}

// ParseReport reads a report from its JSON.
func ParseReport(encoded []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(encoded, &r); err != nil {
		return r, err
	}
	if r.Kind != Kind {
		return r, fmt.Errorf("kind %q: want %q, a report of lateen perf lab", r.Kind, Kind)
	}
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			if len(row.Cells) != len(t.Columns) {
				return r, fmt.Errorf("table %q, row %q: %d cells, want %d, one for each column", t.Title, row.Name,
					len(row.Cells), len(t.Columns))
			}
		}
	}
	return r, nil
}

// Where says on what a report was measured.
func (r Report) Where() string {
	return fmt.Sprintf("%s; %.2g of the published size", machine(r.Machine), r.Scale)
}

func machine(m measure.Machine) string {
	return fmt.Sprintf("%d CPUs (%s), %d GiB", m.Cores, m.CPU, (m.Memory+1<<29)>>30)
}

// none stands in cells without a figure.
const none = "-"

// wide returns a table with a column for each figure. A column with published figures has them in
// another column at its right.
func (t Table) wide() (header []string, rows [][]string) {
	header = []string{""}
	for i, c := range t.Columns {
		if header = append(header, c.Name); t.published(i) {
			header = append(header, "published")
		}
	}
	for _, r := range t.Rows {
		cells := []string{r.Name}
		for i, c := range r.Cells {
			ours := none
			if c.Ours != nil {
				ours = t.Columns[i].Unit.Format(*c.Ours)
			}
			if cells = append(cells, ours); !t.published(i) {
				continue
			}
			if c.Published == "" {
				c.Published = none
			}
			cells = append(cells, c.Published)
		}
		rows = append(rows, cells)
	}
	return header, rows
}

// published tells whether any row has a published figure in a column.
func (t Table) published(column int) bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Cells[column].Published != "" })
}
