package perf

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReport: what is no report is refused, and what is read as one can be shown, compared with
// itself, and written again.
func FuzzReport(f *testing.F) {
	seed, err := os.ReadFile("testdata/report.json")
	require.NoError(f, err)
	f.Add(seed)
	f.Add(
		[]byte(
			"phases: [{name: churn, changes: 2, seconds: 1e300, cpuSeconds: -1, latency: {count: 1, p50: 0.1}, " +
				"residentBytes: 9223372036854775807}]",
		),
	)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		r, err := ParseReport(encoded)
		if err != nil {
			return
		}
		require.NotEmpty(t, r.Title())
		require.NotEmpty(t, r.PhaseTable().Rows)
		r.CapacityTable()
		c, err := Compare(r, r)
		require.NoError(t, err)
		require.Empty(t, c.Differences)
		require.NotEmpty(t, c.Table().Rows)
		for _, p := range c.Phases {
			for _, n := range p.Rows {
				require.Positive(t, n.A, n.Name)
			}
		}
		_, err = json.Marshal(Beside{A: r, B: r, Comparison: c})
		require.NoError(t, err)
	})
}
