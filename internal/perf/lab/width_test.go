package lab

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// TestTablesFit80Columns, with a figure of ours in each cell, and cut no figure.
func TestTablesFit80Columns(t *testing.T) {
	for _, l := range Labs() {
		for _, table := range l.tables() {
			t.Run(l.Name+"/"+table.Title, func(t *testing.T) {
				for i, r := range table.Rows {
					for j, c := range r.Cells {
						ours, known := table.Columns[j].Unit.parse(c.Published)
						if !known {
							ours = 12345.6
						}
						table.Rows[i].Cells[j].Ours = &ours
					}
				}
				var out strings.Builder
				terminal.New(&out, func(name string) string {
					return map[string]string{"COLUMNS": "80"}[name]
				}).Table(table.Terminal())
				for line := range strings.Lines(out.String()) {
					require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, out.String())
				}
				require.NotContains(t, out.String(), "…", "each name and figure is whole")
			})
		}
	}
}
