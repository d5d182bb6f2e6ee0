package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func labReport(version string, figures ...float64) Report {
	t := Table{Title: "One", Columns: []Column{{"CPU", Cores}, {"memory", Bytes}}, Rows: []Row{row("first", 2, "15")}}
	t.put(0, figures...)
	return Report{Kind: Kind, Lab: "aks-churn", Lateen: version, Scale: 1, Tables: []Table{t}}
}

func TestReportsOfALabAreCompared(t *testing.T) {
	a, b := labReport("v1", 2, 3e9), labReport("v2", 0.5)
	b.Scale = 0.5
	c, err := Compare(a, b)
	require.NoError(t, err)
	require.Equal(t, []string{"share of the published size: 1 and 0.5"}, c.Differences)
	require.Len(t, c.Figures, 2)
	require.Equal(t, 2.0, *c.Figures[0].A)
	require.Equal(t, 0.5, *c.Figures[0].B)
	require.Nil(t, c.Figures[1].B, "it was not measured")
	var lines [][]string
	for _, r := range c.Terminal().Rows {
		var line []string
		for _, cell := range r {
			line = append(line, cell.Text)
		}
		lines = append(lines, line)
	}
	require.Equal(t, [][]string{
		{"One"}, {"first"}, {"  CPU", "2.00", "0.50", "4"}, {"  memory", "3.00 GB", "-", "-"},
	}, lines)

	b.Lab = "kubecon"
	_, err = Compare(a, b)
	require.ErrorContains(t, err, "the first report is of lab aks-churn, the second of lab kubecon")
	b = labReport("v2", 1)
	b.Tables[0].Title = "Another"
	_, err = Compare(a, b)
	require.ErrorContains(t, err, "no figure in common")
}
