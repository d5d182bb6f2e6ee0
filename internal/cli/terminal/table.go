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
	// Prose is which columns are broken between words in a window that is too narrow. Then no
	// column is cut.
	Prose Prose
}

// Prose is which columns of a table have texts of several words.
type Prose uint8

// The columns that have them.
const (
	NoProse    Prose = iota
	LastColumn       // sentences, beside names or commands
	AllColumns
)

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
	if w.bounded() {
		if !shrink(widths, t.leastWidths(rows, widths), w.Width()) {
			w.paragraphs(t)
			return
		}
		if t.Prose == NoProse {
			rows = fit(rows, widths)
		} else {
			rows = broken(rows, widths)
		}
	}
	for _, row := range rows {
		w.Line("%s", w.row(row, widths))
	}
}

// leastWidths returns how far columns may shrink. No word of prose is cut, and no cell beside it.
func (t *Table) leastWidths(rows [][]Cell, widths []int) []int {
	least := slices.Clone(widths)
	for i := range least {
		switch {
		case t.Prose == NoProse:
			least[i] = narrowest
		case t.Prose == AllColumns:
			least[i] = longestWord(rows, i)
		case i == len(least)-1:
			least[i] = narrowestProse
		}
	}
	return least
}

func longestWord(rows [][]Cell, column int) (longest int) {
	for _, row := range rows {
		if column < len(row) {
			for word := range strings.SplitSeq(row[column].Text, " ") {
				longest = max(longest, utf8.RuneCountInString(word))
			}
		}
	}
	return longest
}

// broken returns rows whose cells are not wider than their columns. What is left of a cell stands
// below, in rows of its own.
func broken(rows [][]Cell, widths []int) (out [][]Cell) {
	for _, row := range rows {
		lines, height := make([][]string, len(row)), 1
		for i, c := range row {
			lines[i] = Wrap(c.Text, widths[i])
			height = max(height, len(lines[i]))
		}
		for n := range height {
			part := make([]Cell, len(row))
			for i, c := range row {
				if n < len(lines[i]) {
					part[i] = Cell{Text: lines[i][n], Style: c.Style}
				}
			}
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
func shrink(widths, least []int, window int) bool {
	total := gap * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for ; total > window; total-- {
		widest := -1
		for i, n := range widths {
			if n > least[i] && (widest < 0 || n > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}
