package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// The rows of what no object, and no object that is named, has caused.
const (
	nobody  = "(start)"
	unnamed = "(others)"
)

// maxCosts is how many rows are told; the others are one row.
const maxCosts = 1000

// Cost returns what the generations since a time have cost, by namespace or by object.
func (s *Store) Cost(since time.Time, by string) *page.Cost {
	rows, out := map[string]*page.CostRow{}, &page.Cost{Total: page.CostRow{Name: "total"}}
	add := func(name string, row page.CostRow) {
		if rows[name] == nil {
			rows[name] = &page.CostRow{Name: name}
		}
		rows[name].Add(row)
		out.Total.Add(row)
	}
	s.each(func(*block) bool { return true }, func(e *entry) bool {
		if e.At.Before(since) {
			return false
		}
		out.Since = e.At
		share(e, by, add)
		return true
	})
	for _, row := range rows {
		out.Rows = append(out.Rows, *row)
	}
	slices.SortFunc(out.Rows, func(a, b page.CostRow) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name))
	})
	if len(out.Rows) > maxCosts {
		rest := page.CostRow{Name: unnamed}
		for _, row := range out.Rows[maxCosts-1:] {
			rest.Add(row)
		}
		out.Rows = append(out.Rows[:maxCosts-1], rest)
	}
	return out
}

// share shares what a generation took among its objects.
func share(e *entry, by string, add func(name string, row page.CostRow)) {
	whole := page.CostRow{Seconds: e.Seconds}
	if d := e.Delivery; d != nil {
		whole.Pushes, whole.Bytes = float64(d.Proxies), float64(d.Bytes)
	}
	n := len(e.Causes) + e.MoreCauses
	if n == 0 {
		add(nobody, whole)
		return
	}
	part := func(objects int) page.CostRow {
		of := float64(objects) / float64(n)
		return page.CostRow{
			Changes: objects, Seconds: of * whole.Seconds, Pushes: of * whole.Pushes, Bytes: of * whole.Bytes,
		}
	}
	for _, c := range e.Causes {
		name := cmp.Or(c.Namespace, "(none)")
		if by == page.ByObject {
			name = c.Kind + " " + c.Name
			if c.Namespace != "" {
				name = c.Kind + " " + c.Namespace + "/" + c.Name
			}
		}
		add(name, part(1))
	}
	if e.MoreCauses > 0 {
		add(unnamed, part(e.MoreCauses))
	}
}
