package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// figure is one figure of a row, beside the published one.
type figure struct {
	name, ours, published string
	ratio                 string // of ours to the published one
	// each, publishedEach and eachRatio are the same of what is divided among the sidecars of
	// either.
	each, publishedEach, eachRatio string
}

func (f figure) cells() []string {
	return []string{f.name, f.ours, f.published, f.ratio, f.each, f.publishedEach, f.eachRatio}
}

// compares reports whether there is a published figure to compare with.
func (t Table) compares() bool {
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			if _, ok := t.Columns[i].Unit.parse(c.Published); ok {
				return true
			}
		}
	}
	return false
}

// figures returns the figures of a row.
func (t Table) figures(r Row) (all []figure) {
	ours, published := t.sidecars(r)
	for i, c := range r.Cells {
		column := t.Columns[i]
		f := figure{name: column.Name, ours: none, published: c.Published, ratio: none, each: none, publishedEach: none,
			eachRatio: none}
		if c.Published == "" {
			f.published = none
		}
		theirs, known := column.Unit.parse(c.Published)
		if c.Ours != nil {
			f.ours = column.Unit.Format(*c.Ours)
			if known {
				f.ratio = ratio(*c.Ours, theirs)
			}
		}
		if column.Unit == Bytes || column.Unit == Cores {
			if c.Ours != nil && ours > 0 {
				f.each = column.Unit.formatEach(*c.Ours / ours)
			}
			if known && published > 0 {
				f.publishedEach = column.Unit.formatEach(theirs / published)
			}
			if c.Ours != nil && ours > 0 && known && published > 0 {
				f.eachRatio = ratio(*c.Ours/ours, theirs/published)
			}
		}
		all = append(all, f)
	}
	return all
}

// countsSidecars reports whether a column says how many sidecars there are.
func (t Table) countsSidecars() bool { return slices.ContainsFunc(t.Columns, Column.countsSidecars) }

func (c Column) countsSidecars() bool { return c.Name == sidecarsColumn || c.Name == connectionsColumn }

// sidecars returns how many there are in a row, ours and published; 0 if that is unknown.
func (t Table) sidecars(r Row) (ours, published float64) {
	for i, c := range t.Columns {
		if !c.countsSidecars() {
			continue
		}
		if r.Cells[i].Ours != nil {
			ours = *r.Cells[i].Ours
		}
		published, _ = Count.parse(r.Cells[i].Published)
	}
	return ours, published
}

// The columns that say how many sidecars there are.
const sidecarsColumn, connectionsColumn = "sidecars", "connections"

// ratio returns how many times as large one figure is as another.
func ratio(a, b float64) string {
	if a == b {
		return "1"
	}
	if a <= 0 || b <= 0 {
		return none
	}
	times := strconv.FormatFloat(max(a, b)/min(a, b), 'g', 3, 64)
	if by := max(a, b) / min(a, b); by >= 1000 {
		times = thousands(int64(by + 0.5))
	}
	if a < b && times != "1" {
		return "1/" + times
	}
	return times
}

// parse reads a published figure, in the unit of the column. It is false for texts that are no
// single number, as ranges are.
func (u Unit) parse(published string) (float64, bool) {
	number, suffix, _ := strings.Cut(published, " ")
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSuffix(number, "/s"), ",", ""), 64)
	if err != nil {
		return 0, false
	}
	scale, known := map[Unit]map[string]float64{
		Count:     {"": 1},
		Cores:     {"": 1},
		PerSecond: {"": 1},
		Percent:   {"%": 1},
		Seconds:   {"s": 1, "s (p99.9)": 1, "ms": 1e-3},
		Bytes:     {"kB": 1e3, "MB": 1e6, "GB": 1e9, "MiB": 1 << 20},
	}[u][suffix]
	return v * scale, known
}

// formatEach formats what there is of a figure for each sidecar.
func (u Unit) formatEach(v float64) string {
	if u == Cores {
		return fmt.Sprintf("%.2fm", 1000*v)
	}
	return u.Format(v)
}

// Text returns the header and the rows of a table as texts. A table with published numbers has a
// row for each figure, under a row with a name alone: ours, the published one and their ratio. The
// others have a column for each.
func (t Table) Text() (header []string, rows [][]string) {
	if !t.compares() {
		return t.wide()
	}
	header = []string{"", "Lateen", "published", "ratio"}
	if t.countsSidecars() {
		header = append(header, "a sidecar", "published", "ratio")
	}
	for _, r := range t.Rows {
		rows = append(rows, append([]string{r.Name}, make([]string, len(header)-1)...))
		for _, f := range t.figures(r) {
			rows = append(rows, f.cells()[:len(header)])
		}
	}
	return header, rows
}

// Terminal returns the table for a terminal.
func (t Table) Terminal() terminal.Table {
	header, rows := t.Text()
	for i := range header {
		header[i] = strings.ToUpper(header[i])
	}
	out := terminal.Table{Header: header, Prose: terminal.AllColumns}
	for _, r := range rows {
		if out.Row(r...); r[1] == "" {
			out.Rows[len(out.Rows)-1] = []terminal.Cell{{Text: r[0], Style: terminal.Bold}}
		} else if t.compares() {
			out.Rows[len(out.Rows)-1][0].Text = "  " + r[0]
		}
	}
	return out
}
