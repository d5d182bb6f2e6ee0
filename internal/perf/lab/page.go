package lab

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Page returns the page docs/seeds.md: each table of each lab, our figures beside the published
// ones. Of several reports of a lab the last counts. A lab without a report has published figures
// alone. istiod is nil if there is nothing to show of it.
func Page(reports []Report, istiod *BesideIstiod) string {
	var b strings.Builder
	b.WriteString(pageBegin)
	if istiod != nil {
		b.WriteString("\nistiod itself, on the machine of these figures, [stands " +
			"below](#istiod-on-the-same-machine).\n")
	}
	latest := map[string]Report{}
	for _, r := range reports {
		latest[r.Lab] = r
	}
	for _, l := range Labs() {
		fmt.Fprintf(&b, "\n## %s\n\n", l.Name)
		b.WriteString(wrap("**"+l.Document+"**: "+l.Reproduces+".", "", ""))
		b.WriteString("\n")
		for i, s := range l.Steps {
			number := fmt.Sprintf("%d. ", i+1)
			b.WriteString(wrap(s+".", number, "   "))
		}
		r, measured := latest[l.Name]
		if !measured {
			r = Report{Tables: l.tables()}
		}
		for _, t := range r.Tables {
			b.WriteString("\n" + t.markdown())
		}
		if !measured {
			b.WriteString("\nNot measured yet.\n")
			continue
		}
		b.WriteString("\n" + wrap(fmt.Sprintf("`%s`, lateen %s, %s: %s.", r.Command, r.Lateen,
			r.Start.Format("2006-01-02"), r.Where()), "", ""))
		for _, n := range r.Notes {
			b.WriteString("\n" + wrap(n, "", ""))
		}
	}
	if istiod != nil {
		b.WriteString(istiod.markdown())
	}
	b.WriteString(withoutRows())
	return b.String()
}

const pageBegin = `# The published tests, beside Lateen

Each table of the documents that Lateen is held against, with Lateen's figure beside the published
one, the ratio of both, and where they are of a mesh of sidecars what each of these takes. Published
figures are of other machines and, mostly, larger meshes: compare shapes, not digits.
[Performance](performance.md) has istiod and Lateen on one machine. "make seeds" measures all again
(about 15 minutes) and writes this page; "lateen perf lab NAME" runs one
([guide](guides/measure.md#published-tests)).
`

// markdown returns a table in Markdown.
func (t Table) markdown() string {
	header, rows := t.Text()
	header[0] = t.Title
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	line(header)
	b.WriteString("|---" + strings.Repeat("|---:", len(header)-1) + "|\n")
	for _, r := range rows {
		if t.compares() && r[1] == "" {
			r[0] = "**" + r[0] + "**"
		}
		line(r)
	}
	return b.String()
}

// pageWidth is how many columns prose has.
const pageWidth = 100

// wrap breaks a text into lines. The first begins with one text, further ones with another.
func wrap(text, first, further string) string {
	var b strings.Builder
	line := first
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > pageWidth {
			b.WriteString(line + "\n")
			line = further + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
