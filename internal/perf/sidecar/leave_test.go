package sidecar_test

import (
	"net/http"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
)

// metric is a metric of a child without labels, or the sum of its series.
func (c *child) metric(name string) (sum float64) {
	answer, err := http.Get("http://" + c.monitoring + "/metrics")
	require.NoError(c.tb, err)
	defer func() { require.NoError(c.tb, answer.Body.Close()) }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	require.NoError(c.tb, err)
	require.Contains(c.tb, families, name)
	for _, m := range families[name].GetMetric() {
		sum += valueOf(m)
	}
	return sum
}

func valueOf(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetCounter().GetValue() }

// TestSidecarsThatStallAndLeaveKeepNobodyOut: of 7,500 sidecars half stop reading while they ask
// and are pushed to, and leave. Then the others have the newest state, newcomers are let in, and no
// worker of the pushes is busy.
func TestSidecarsThatStallAndLeaveKeepNobodyOut(t *testing.T) {
	if raced {
		t.Skip("the race detector makes it take minutes; xds/serve is tested with it")
	}
	const half, newcomers = 3750, 500
	c := startChild(t, 20)
	stay := newFleet(t, sidecar.Options{Targets: []string{c.address}})
	// A window of two responses, so that a third waits for a client that does not read.
	leave := newFleet(t, sidecar.Options{Targets: []string{c.address}, Window: 2 << 10})
	start(stay, half, sidecar.Faults{})
	stalled := start(leave, half, sidecar.Faults{StopsReading: true, FloodRate: 2})
	await(t, stay, "those that stay", allSynced)
	await(t, leave, "those that stall", allSynced)

	for variant := range 20 {
		c.edit(variant)
	}
	stuck := func() bool { return c.metric("lateen_xds_queued_bytes") > half<<10 }
	require.Eventually(t, stuck, patience, 100*time.Millisecond, "sends to those that do not read are stuck")
	for i, s := range stalled {
		if i%(half/20) == 0 {
			c.edit(100 + i)
		}
		s.Stop()
	}
	start(stay, newcomers, sidecar.Faults{})
	await(t, stay, "those that stay, and newcomers", func(s sidecar.Stats) bool {
		return s.Started == half+newcomers && s.Synced == s.Started
	})
	require.Eventually(t, func() bool { return c.metric("pilot_xds") == half+newcomers }, patience,
		100*time.Millisecond, "those that stalled are gone")
	c.settle()
	require.Eventually(t, func() bool { return c.metric("lateen_push_slots_busy") == 0 }, patience,
		100*time.Millisecond, "a worker is busy, and there is nothing to push")
	t.Logf("pushes that found nothing: %v", c.metric("lateen_empty_pushes_total"))
}
