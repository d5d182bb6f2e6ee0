package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// sizes are the meshes that everything is measured in, by their number of services.
var sizes = []int{100, 1000, 10000}

// A cost counts as flat while ten times the mesh is at most this many times the cost. What is
// allocated and sent is exact but for the depth of trees and the length of numbers; times also see
// more cache misses in a larger mesh.
const (
	flatTime   = 3.0
	flatAllocs = 1.3
	flatBytes  = 1.1
)

// document is the part of docs/performance.md that shows the results. Every row of the catalogue
// must be there.
func document(rs *results) (string, error) {
	var b strings.Builder
	b.WriteString("| stage | what | 100 services | 1,000 | 10,000 | growth | |\n|---|---|---:|---:|---:|---:|---|\n")
	var reasons []string
	stage := ""
	for _, r := range catalogue {
		m, err := r.measured(rs)
		if err != nil {
			return "", err
		}
		if m.grows() {
			if r.grows == "" {
				return "", fmt.Errorf("%s, %s: grows with the mesh, and the catalogue does not say why: %s", r.stage,
					r.change, m)
			}
			if !slices.Contains(reasons, r.grows) {
				reasons = append(reasons, r.grows)
			}
			m.notes = append(m.notes, fmt.Sprintf("(%d)", slices.Index(reasons, r.grows)+1))
		}
		title := ""
		if r.stage != stage {
			stage, title = r.stage, titles[r.stage]
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", title, r.text, m)
	}
	b.WriteString("\n" +
		wrapped(fmt.Sprintf("Each cell: time / allocations / bytes allocated. Growth: from 1,000 to 10,000 services. "+
			"Medians of %d, measured on %s at %s with %s on %s cores (%s) and %s.",
			rs.runs(), rs.facts["date"], rs.facts["commit"], rs.facts["go"], rs.facts["cores"], rs.facts["cpu"],
			rs.facts["memory"])) + "\n")
	b.WriteString("What grows, why, and what would end it:\n\n")
	for i, reason := range reasons {
		b.WriteString(wrapped(fmt.Sprintf("%d. %s", i+1, reason)))
	}
	return b.String(), nil
}

// measured is a row as the baseline has it: time, allocations and bytes in meshes of each size, and
// what was sent.
type measured struct {
	values [][3]float64
	sent   []float64
	notes  []string
}

func (r row) measured(rs *results) (measured, error) {
	var m measured
	for _, n := range sizes {
		v, err := valuesOf(rs, id{stage: r.stage, services: n, change: r.change})
		if err != nil {
			return m, err
		}
		m.values = append(m.values, v)
	}
	for _, also := range alsoShown {
		var values []float64
		var amounts []string
		for _, n := range sizes {
			if v, ok := rs.median(id{stage: r.stage, services: n, change: r.change}, also.unit); ok {
				values, amounts = append(values, v), append(amounts, also.amount(v))
			}
		}
		if len(values) > 0 {
			m.notes = append(m.notes, also.word+" "+strings.Join(slices.Compact(amounts), ", "))
		}
		if len(values) == len(sizes) && strings.HasPrefix(also.unit, "sent-B/") {
			m.sent = values
		}
	}
	return m, nil
}

// alsoShown are the units of some stages' own that the table shows, once for all sizes where they
// agree.
var alsoShown = []struct {
	unit, word string
	amount     func(float64) string
}{
	{"classes/op", "classes", count},
	{"misses/op", "translations", count},
	{"differences/op", "differences", count},
	{"proxies/op", "proxies", count},
	{"sent-B/op", "sent", size},
	{"sent-B/stream", "sent to each", size},
}

// growth is how many times the cost in the largest mesh is that in the one of a tenth of its size.
func (m measured) growth() (times [3]float64) {
	for i := range times {
		times[i] = ratio(m.values[len(m.values)-2][i], m.values[len(m.values)-1][i])
	}
	return times
}

func ratio(tenth, all float64) float64 {
	if tenth == 0 {
		return 1 + all
	}
	return all / tenth
}

// grows tells that the cost follows the size of the mesh, here or on the wire.
func (m measured) grows() bool {
	times := m.growth()
	return times[0] > flatTime || times[1] > flatAllocs ||
		m.sent != nil && ratio(m.sent[len(m.sent)-2], m.sent[len(m.sent)-1]) > flatBytes
}

// String is the row's cells.
func (m measured) String() string {
	var cells []string
	for _, v := range m.values {
		cells = append(cells, fmt.Sprintf("%s / %s / %s", duration(v[0]), count(v[1]), size(v[2])))
	}
	times := m.growth()
	cells = append(cells, fmt.Sprintf("×%.1f / %.1f / %.1f", times[0], times[1], times[2]), strings.Join(m.notes, "; "))
	return strings.Join(cells, " | ")
}

func valuesOf(rs *results, of id) (v [3]float64, err error) {
	for i, unit := range []string{"ns/op", "allocs/op", "B/op"} {
		m, ok := rs.median(of, unit)
		if !ok {
			return v, fmt.Errorf("%s: the baseline has no %s", of, unit)
		}
		v[i] = m
	}
	return v, nil
}

// wrapped is a paragraph in lines of at most 100 characters; the later lines of a list's item are
// indented.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+utf8.RuneCountInString(word) > 100:
			b.WriteString("\n")
			column = 0
			if text[0] >= '0' && text[0] <= '9' {
				b.WriteString("   ")
				column = 3
			}
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += utf8.RuneCountInString(word)
	}
	return b.String() + "\n"
}

func duration(ns float64) string { return scaled(ns, 1000, "ns", "µs", "ms", "s") }
func count(n float64) string     { return scaled(n, 1000, "", "k", "M", "G") }
func size(n float64) string      { return scaled(n, 1000, "B", "kB", "MB", "GB") }

// scaled is a value with two or three digits in the unit that fits.
func scaled(v, step float64, units ...string) string {
	unit := 0
	for v >= 999.5 && unit < len(units)-1 {
		v /= step
		unit++
	}
	digits := 0
	if v < 9.95 && unit > 0 {
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if units[unit] == "" || units[unit] == "k" || units[unit] == "M" && units[0] == "" {
		return text + units[unit]
	}
	return text + " " + units[unit]
}
