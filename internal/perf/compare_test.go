package perf

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// another is the example's run with a control plane that takes less, and half of the changes.
func another() Report {
	r := example()
	r.ControlPlane.Name, r.ControlPlane.Version, r.Command = "other", "2", "lateen perf churn --target other:15010"
	r.Phases = slices.Clone(r.Phases)
	churn := &r.Phases[1]
	churn.Changes /= 2
	churn.CPU /= 20
	churn.Received /= 2000
	churn.Latency = summaryOf(1, 4)
	churn.Removal = nil
	r.Machine.Cores = 4
	r.Phases = append(r.Phases, Phase{Name: "restart"})
	return r
}

func TestComparisonTableIsStable(t *testing.T) {
	c, err := Compare(example(), another())
	require.NoError(t, err)
	var out strings.Builder
	w := terminal.New(&out, func(string) string { return "" })
	w.Line("%s", c.Title())
	w.Table(c.Table())
	w.Line("%s", strings.Join(c.Differences, "\n"))
	golden.File(t, "testdata/compare.txt", out.String())
}

func TestEqualReportsHaveRatioOne(t *testing.T) {
	c, err := Compare(example(), example())
	require.NoError(t, err)
	require.Empty(t, c.Differences)
	for _, p := range c.Phases {
		require.NotEmpty(t, p.Rows)
		for _, r := range p.Rows {
			require.Equal(t, r.A, r.B, r.Name)
		}
	}
}

func TestAReportIsReadAsItWasWritten(t *testing.T) {
	for _, write := range []func(any) ([]byte, error){json.Marshal,
		func(v any) ([]byte, error) { return yaml.Marshal(v) }} {
		encoded, err := write(example())
		require.NoError(t, err)
		r, err := ParseReport(encoded)
		require.NoError(t, err)
		require.Equal(t, example(), r)
	}
}

func TestReportsThatCannotBeComparedAreTold(t *testing.T) {
	_, err := ParseReport([]byte("lateen perf churn\n1 2 3"))
	require.ErrorContains(t, err, "this is no report")
	_, err = ParseReport([]byte("{}"))
	require.ErrorContains(t, err, "no phases")
	_, err = Compare(Report{Phases: []Phase{{Name: "load"}}}, Report{Phases: []Phase{{Name: "churn"}, {Name: "x"}}})
	require.ErrorContains(t, err, "no phase in common: load, and churn, x")
}
