package htmlreport

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
	"github.com/lateen-mesh/lateen/internal/perf/lab"
)

// labSections has a section for the reports of each lab. Those of one lab are side by side: a chart
// for each column of each table, and all tables with the published figures.
func labSections(all []lab.Report) []htmlpage.Section {
	return sections(all, labSection, func(r lab.Report) string { return r.Lab })
}

func labSection(name string, all []lab.Report) htmlpage.Section {
	s := htmlpage.Section{Title: "Lab: " + name}
	var labels []string
	for _, r := range all {
		labels = append(labels, "lateen "+r.Lateen)
	}
	labels = unique(labels)
	for at := range all[0].Tables {
		for column := range all[0].Tables[at].Columns {
			if c := labChart(all, labels, at, column); !c.IsEmpty() {
				s.Charts = append(s.Charts, c)
			}
		}
	}
	for i, r := range all {
		s.Lines = append(append(s.Lines, labels[i]+": "+r.Command+"; "+r.Where()), r.Notes...)
		for _, t := range r.Tables {
			header, rows := t.Text()
			header[0] = labels[i] + ": " + t.Title
			s.Tables = append(s.Tables, htmlpage.Table{Header: header, Rows: rows})
		}
	}
	return s
}

// labChart draws one column of one table, with a series for each report. Reports of another version
// of the lab, in which a row is missing, have no value there.
func labChart(all []lab.Report, labels []string, at, column int) htmlpage.Chart {
	first := all[0].Tables[at]
	of := first.Columns[column]
	c := htmlpage.Chart{Title: first.Title + ": " + of.Name, Unit: string(of.Unit)}
	for _, row := range first.Rows {
		c.Categories = append(c.Categories, row.Name)
	}
	for i, r := range all {
		series := htmlpage.Series{Name: labels[i], Values: make([]*float64, len(c.Categories))}
		if at < len(r.Tables) && column < len(r.Tables[at].Columns) {
			for _, row := range r.Tables[at].Rows {
				if place := slices.Index(c.Categories, row.Name); place >= 0 {
					series.Values[place] = row.Cells[column].Ours
				}
			}
		}
		c.Series = append(c.Series, series)
	}
	return c
}
