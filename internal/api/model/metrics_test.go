package model

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMergedMetrics(t *testing.T) {
	host := MetricTag{Name: "host", Format: "a"}
	other := MetricTag{Name: "host", Format: "b"}
	without := MetricTag{Name: "response_flags"}
	telemetry := func(rules ...MetricsRule) *Telemetry { return &Telemetry{Metrics: rules} }
	inherits := func(overrides ...MetricOverride) MetricsRule {
		return MetricsRule{Inherits: true, Overrides: overrides}
	}
	on, off := &MeshConfig{Metrics: true}, &MeshConfig{}
	no, yes := new(true), new(false)
	for name, c := range map[string]struct {
		mesh   *MeshConfig
		levels []*Telemetry
		want   MetricsTelemetry
	}{
		"nothing is said": {on, nil, MetricsTelemetry{Prometheus: true}},
		"a Telemetry turns metrics on": {
			off, []*Telemetry{telemetry(MetricsRule{Prometheus: true})}, MetricsTelemetry{Prometheus: true},
		},
		"what is for others counts for nothing": {
			on,
			[]*Telemetry{telemetry(MetricsRule{Overrides: []MetricOverride{{Metrics: AllMetrics, Disabled: no}}})},
			MetricsTelemetry{Prometheus: true},
		},
		"what is for the other side counts for nothing": {
			on,
			[]*Telemetry{telemetry(inherits(MetricOverride{Metrics: AllMetrics, Mode: ClientMode, Disabled: no}))},
			MetricsTelemetry{Prometheus: true},
		},
		"messages of gRPC are counted for who asks": {
			on,
			[]*Telemetry{telemetry(inherits(
				MetricOverride{Metrics: RequestMessages.Set(), Disabled: yes},
				MetricOverride{Metrics: ResponseMessages.Set(), Tags: []MetricTag{host}},
			))},
			MetricsTelemetry{Prometheus: true, Changed: ChangedMetrics{
				{Metric: RequestMessages}, {Metric: ResponseMessages, Disabled: true, Tags: []MetricTag{host}},
			}},
		},
		"nearer ones change what others say": {
			on,
			[]*Telemetry{
				telemetry(inherits(
					MetricOverride{Metrics: AllMetrics, Disabled: no},
					MetricOverride{Metrics: RequestSize.Set(), Tags: []MetricTag{host, without}},
				)),
				telemetry(inherits(
					MetricOverride{Metrics: UsualMetrics ^ TCPSent.Set(), Mode: ServerMode, Disabled: yes},
					MetricOverride{Metrics: RequestSize.Set() | TCPSent.Set(), Tags: []MetricTag{other}},
				)),
			},
			MetricsTelemetry{Prometheus: true, Changed: ChangedMetrics{
				{Metric: RequestSize, Tags: []MetricTag{other, without}},
				{Metric: TCPSent, Disabled: true, Tags: []MetricTag{other}},
			}},
		},
	} {
		got := MergedMetrics(c.mesh, c.levels, ServerMode)
		require.Equal(t, c.want, got, name)
	}
}

// TestTagsAreBoundedOverAllLevels: each level may set less than the limit, all together may not. A
// tag that is there can be changed and removed, which makes room.
func TestTagsAreBoundedOverAllLevels(t *testing.T) {
	level := func(name string, n int, format string) *Telemetry {
		var tags []MetricTag
		for i := range n {
			tags = append(tags, MetricTag{Name: fmt.Sprintf("%s%02d", name, i), Format: format})
		}
		return &Telemetry{Meta: Meta{Name: name}, Metrics: []MetricsRule{{
			Inherits: true, Overrides: []MetricOverride{{Metrics: RequestCount.Set(), Tags: tags}},
		}}}
	}
	merged := func(levels ...*Telemetry) (set, removed int, dropped []string) {
		got := MergedMetrics(&MeshConfig{Metrics: true}, levels, ClientMode)
		for _, d := range got.Dropped {
			require.Equal(t, RequestCount, d.Metric)
			dropped = append(dropped, d.By.Name+" "+d.Name)
		}
		tags := got.Changed.Of(RequestCount).Tags
		return countSet(tags), len(tags) - countSet(tags), dropped
	}
	set, _, dropped := merged(level("a", 12, "x"), level("b", 8, "x"), level("c", 2, "x"))
	require.Equal(t, MaxMetricTags, set)
	require.Equal(t, []string{"c c00", "c c01"}, dropped)

	set, removed, dropped := merged(level("a", 20, "x"), level("a", 20, "y"), level("a", 3, ""), level("c", 4, "x"))
	require.Equal(t, MaxMetricTags, set)
	require.Equal(t, 3, removed)
	require.Equal(t, []string{"c c03"}, dropped)

	set, removed, dropped = merged(level("a", 20, "x"), level("b", 50, ""))
	require.Equal(t, []int{20, 40}, []int{set, removed})
	require.Len(t, dropped, 10)
}
