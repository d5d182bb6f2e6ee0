package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// gap is the space between columns; narrowest is the least width of a column when the window is
// too small for all, and narrowestProse that of a column of prose.
const (
	gap            = 2
	narrowest      = 6
	narrowestProse = 20
)

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Table is rows under a header. A column is as wide as its widest cell. If the table is too wide
// for the window, the widest columns shrink, and an ellipsis stands in their cells where it hides
// the least of what tells rows apart. If even that is too wide, each row is a paragraph. To a file
// or a pipe nothing is cut.
type Table struct {
	Header []string
	Rows   [][]Cell
	// Prose says that the last column is sentences: in a window that is too narrow it is broken
	// between words, and no other column is cut.
	Prose bool
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
	rows := append([][]Cell{header}, t.cleanRows()...)
	widths := columnWidths(rows)
	if w.bounded() && t.Prose && len(widths) > 0 {
		if !breakLast(widths, w.Width()) {
			w.paragraphs(t)
			return
		}
		rows = brokenLast(rows, widths[len(widths)-1])
	} else if w.bounded() {
		if !shrink(widths, w.Width()) {
			w.paragraphs(t)
			return
		}
		rows = fit(rows, widths)
	}
	for _, row := range rows {
		w.Line("%s", w.row(row, widths))
	}
}

// breakLast narrows the last column until a row fits. It returns false if it becomes too narrow for
// sentences.
func breakLast(widths []int, window int) bool {
	last := len(widths) - 1
	left := window - gap*last
	for _, n := range widths[:last] {
		left -= n
	}
	if widths[last] > left && left < narrowestProse {
		return false
	}
	widths[last] = min(widths[last], left)
	return true
}

// brokenLast returns rows whose last cell has at most a number of columns. What is left of it
// stands below, in rows of its own.
func brokenLast(rows [][]Cell, columns int) (out [][]Cell) {
	for _, row := range rows {
		last := len(row) - 1
		if last < 0 {
			continue
		}
		lines := Wrap(row[last].Text, columns)
		for i, line := range lines {
			part := make([]Cell, len(row))
			if i == 0 {
				part = slices.Clone(row)
			}
			part[last] = Cell{Text: line, Style: row[last].Style}
			out = append(out, part)
		}
	}
	return out
}

// cleanRows returns the rows with cells of one line each.
func (t *Table) cleanRows() [][]Cell {
	rows := make([][]Cell, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = slices.Clone(row)
		for column := range row {
			rows[i][column].Text = clean(row[column].Text)
		}
	}
	return rows
}

// fit returns rows whose cells are not wider than their columns. The first row is the header.
func fit(rows [][]Cell, widths []int) [][]Cell {
	out := make([][]Cell, len(rows))
	for i, row := range rows {
		out[i] = slices.Clone(row)
	}
	for column, width := range widths {
		var texts []string
		for _, row := range out[1:] {
			if column < len(row) {
				texts = append(texts, row[column].Text)
			}
		}
		texts = shorten(texts, width)
		for _, row := range out[1:] {
			if column < len(row) {
				row[column].Text, texts = texts[0], texts[1:]
			}
		}
		if column < len(out[0]) {
			out[0][column].Text = cut(out[0][column].Text, width)
		}
	}
	return out
}

// paragraphs writes each row as its first cell, and below it the others with their headers.
func (w *Writer) paragraphs(t Table) {
	for _, row := range t.cleanRows() {
		line := "  "
		for i, c := range row {
			if i == 0 {
				w.Line("%s", w.Paint(c.Style, c.Text))
				continue
			}
			part := c.Text
			if i < len(t.Header) {
				part = t.Header[i] + " " + c.Text
			}
			if line != "  " && utf8.RuneCountInString(line+part) > w.Width() {
				w.Line("%s", strings.TrimRight(line, " "))
				line = "  "
			}
			line += part + "  "
		}
		if line != "  " {
			w.Line("%s", strings.TrimRight(line, " "))
		}
	}
}

func (w *Writer) row(cells []Cell, widths []int) string {
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(w.Paint(c.Style, c.Text))
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.Text)+gap))
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

// shrink narrows the widest column, one character at a time, until the row fits. It returns false
// if that takes columns below their least width.
func shrink(widths []int, window int) bool {
	if len(widths) == 0 {
		return true
	}
	total := gap * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for ; total > window; total-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= narrowest {
			return false
		}
		widths[widest]--
	}
	return true
}
