package measure

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzMetrics: whatever a control plane serves as its metrics, what is made of it is no number
// below zero.
func FuzzMetrics(f *testing.F) {
	f.Add(
		[]byte(
			"# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total " +
				"1.5\nprocess_resident_memory_bytes 1e7\n",
		),
	)
	f.Add(
		[]byte(
			"lateen_xds_queued_bytes{a=\"b\"} NaN\ngo_memstats_alloc_bytes_total +Inf\ngo_memstats_mallocs_total " +
				"-1 1395066363000\n",
		),
	)
	f.Add([]byte("# TYPE pilot_info gauge\npilot_info{version=\"1.31.0\"} 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMetrics(bytes.NewReader(text))
		if err != nil {
			return
		}
		u := m.usage()
		require.GreaterOrEqual(t,
			min(int64(u.CPU), u.Resident, u.Queued, int64(u.Allocated), int64(u.Allocations),
				int64(u.GCTime)), int64(0))
		m.Label("pilot_info", "version")
	})
}
