package lab

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Lab is one published test.
type Lab struct {
	Name, About string
	// Document is where it was published, and Reproduces which of its tables and figures.
	Document, Reproduces string
	// Steps are what is done, in order.
	Steps []string
	// Scale is the default size, as a share of the published one: 0.04 of 25,000 sidecars are
	// 1,000.
	Scale float64
	// Sidecars is how many simulated sidecars the largest of the published meshes has; 0 for a lab
	// without, or with few.
	Sidecars int
	// Limited is set if Options.Limits and Options.Real mean something.
	Limited bool
	// NeedsEnvoy is set if nothing can be measured without an Envoy.
	NeedsEnvoy bool

	tables func() []Table
	run    func(ctx context.Context, r *run) error
}

// Labs returns all labs, in the order of the documents.
func Labs() []Lab {
	return []Lab{
		bookLab(), bookinfoLab(), kubeconLab(), churnLab(), servicesLab(), dnsLab(), phantomLab(), dataPlaneLab(),
		appLab(), gatewayLab(), aroundLab(),
	}
}

// Find returns the lab of a name.
func Find(name string) (Lab, error) {
	all := Labs()
	at := slices.IndexFunc(all, func(l Lab) bool { return l.Name == name })
	if at < 0 {
		return Lab{}, fmt.Errorf("lab %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	return all[at], nil
}

// Names returns the names of all labs.
func Names() (names []string) {
	for _, l := range Labs() {
		names = append(names, l.Name)
	}
	return names
}

// Table is a published table, with our figures beside its own.
type Table struct {
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// Column is what a column holds.
type Column struct {
	Name string `json:"name"`
	// Unit is that of our figures: one of the constants.
	Unit Unit `json:"unit"`
}

// Row is one row. It has a cell for each column.
type Row struct {
	Name  string `json:"name"`
	Cells []Cell `json:"cells"`
}

// Cell is one figure, ours and the published one.
type Cell struct {
	// Ours is nil before it is measured, or if it cannot be.
	Ours *float64 `json:"ours,omitempty"`
	// Published is as the document has it, or empty if it has none.
	Published string `json:"published,omitempty"`
}

// row makes a row of published figures. Those that are missing at the end were not published.
func row(name string, columns int, published ...string) Row {
	r := Row{Name: name, Cells: make([]Cell, columns)}
	for i, p := range published {
		r.Cells[i].Published = p
	}
	return r
}

// put fills the cells of a row from the left with our figures. NaN is none.
func (t *Table) put(row int, ours ...float64) {
	for i, v := range ours {
		if !math.IsNaN(v) {
			t.Rows[row].Cells[i].Ours = &v
		}
	}
}
