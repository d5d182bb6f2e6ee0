package advise

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// TestMetricsSayWhatTheReportSays for each bad state, and are Prometheus's format.
func TestMetricsSayWhatTheReportSays(t *testing.T) {
	for _, c := range ruleCases() {
		f := healthy()
		c.make(f)
		f.Time = time.Unix(1700000000, 0)
		r := Advise(f, testModel(t))
		m, err := measure.Parse([]byte(r.Metrics()))
		require.NoError(t, err, c.name)
		require.InDelta(t, 1700000000, m.Sum("lateen_advice_time_seconds"), 0)
		require.InDelta(t, len(r.Findings), m.Sum("lateen_advice_findings"), 0, c.name)
		require.Len(t, m["lateen_advice_findings"].GetMetric(), len(rules()))
		require.InDelta(t, len(c.bad), m.Sum("lateen_advice_signal_off"), 0, c.name)
		effects := 0
		for _, found := range r.Findings {
			effects += 2 * len(found.Effects)
		}
		require.Len(t, m["lateen_advice_effect"].GetMetric(), effects, c.name)
	}
	unknown, err := measure.Parse([]byte(Report{Signals: []SignalState{{Signal: Latency, State: Unknown}}}.Metrics()))
	require.NoError(t, err)
	require.Empty(t, unknown["lateen_advice_signal_off"].GetMetric())
	strange := Report{Findings: []Finding{{Rule: "a", Effects: []Effect{{What: "a \"b\"\\\n", After: 1}}}}}
	m, err := measure.Parse([]byte(strange.Metrics()))
	require.NoError(t, err)
	require.InDelta(t, 1, m.Sum("lateen_advice_effect"), 0)
}
