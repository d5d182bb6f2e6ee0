package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// gap is the space between columns; narrowest is the least width of a column when the window is
// too small for all.
const (
	gap       = 2
	narrowest = 6
)

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Table is rows under a header. A column is as wide as its widest cell. If the table is too wide
// for the window, the widest columns shrink and their cells end in an ellipsis. To a file or a pipe
// nothing is cut.
type Table struct {
	Header []string
	Rows   [][]Cell
}

// Row adds a row of cells without style.
func (t *Table) Row(texts ...string) {
	row := make([]Cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	t.Rows = append(t.Rows, row)
}

// Table writes a table, the header in bold.
func (w *Writer) Table(t Table) {
	header := make([]Cell, len(t.Header))
	for i, h := range t.Header {
		header[i] = Cell{Text: h, Style: Bold}
	}
	rows := append([][]Cell{header}, t.Rows...)
	widths := columnWidths(rows)
	if w.file != nil {
		shrink(widths, w.Width())
	}
	for _, row := range rows {
		w.Line("%s", w.row(row, widths))
	}
}

func (w *Writer) row(cells []Cell, widths []int) string {
	var b strings.Builder
	for i, c := range cells {
		text := cut(c.Text, widths[i])
		b.WriteString(w.Paint(c.Style, text))
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

func columnWidths(rows [][]Cell) []int {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	return widths
}

// shrink narrows the widest column, one character at a time, until the row fits or every column is
// at its least width.
func shrink(widths []int, window int) {
	if len(widths) == 0 {
		return
	}
	total := gap * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for ; total > window; total-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= narrowest {
			return
		}
		widths[widest]--
	}
}
