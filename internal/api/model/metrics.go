package model

import (
	"slices"
	"strings"
)

// Metric is one of Istio's standard metrics that proxies can keep.
type Metric uint8

// The metrics.
const (
	RequestCount Metric = iota
	RequestDuration
	RequestSize
	ResponseSize
	TCPOpened
	TCPClosed
	TCPSent
	TCPReceived
	// RequestMessages and ResponseMessages are those of gRPC. Nobody counts them unless a Telemetry
	// asks for it by their names.
	RequestMessages
	ResponseMessages
	endOfMetrics
)

// String returns the metric's name in Istio's API.
func (m Metric) String() string {
	return [endOfMetrics]string{
		"REQUEST_COUNT", "REQUEST_DURATION", "REQUEST_SIZE", "RESPONSE_SIZE",
		"TCP_OPENED_CONNECTIONS", "TCP_CLOSED_CONNECTIONS", "TCP_SENT_BYTES", "TCP_RECEIVED_BYTES",
		"GRPC_REQUEST_MESSAGES", "GRPC_RESPONSE_MESSAGES",
	}[m]
}

// MetricSet is a set of metrics, with one bit for each.
type MetricSet uint16

// AllMetrics are all of them, and UsualMetrics those that are on by themselves.
const (
	AllMetrics   MetricSet = 1<<endOfMetrics - 1
	UsualMetrics           = AllMetrics &^ (1<<RequestMessages | 1<<ResponseMessages)
)

// Set returns the metric alone.
func (m Metric) Set() MetricSet { return 1 << m }

// Has reports whether a metric is in the set.
func (s MetricSet) Has(m Metric) bool { return s&m.Set() != 0 }

// MetricsRule is one entry of metrics.
type MetricsRule struct {
	// Inherits counts for the providers of the level above, else for Prometheus if that is set.
	Inherits, Prometheus bool
	Overrides            []MetricOverride
}

// MetricOverride changes metrics. A later one that says something else of the same metric counts.
type MetricOverride struct {
	Metrics MetricSet
	Mode    WorkloadMode
	// Disabled is nil where the override says nothing of it.
	Disabled *bool
	// Tags are sorted by name.
	Tags []MetricTag
}

// MetricTag sets a tag of a metric, or removes it.
type MetricTag struct {
	Name string
	// Format is a format string of Envoy; empty removes the tag.
	Format string
}

// MetricsTelemetry is what the Telemetries of a workload say of its metrics, on one side of calls.
type MetricsTelemetry struct {
	// Prometheus says that there are metrics for Prometheus.
	Prometheus bool
	Changed    ChangedMetrics
	// Dropped are tags that have no effect, because their metric has too many.
	Dropped []DroppedTag
}

// MaxMetricTags is how many tags of one metric Telemetries may set, all levels together: each costs
// time for every request. MaxTagChanges also counts the tags that they remove.
const (
	MaxMetricTags = 20
	MaxTagChanges = 60
)

// DroppedTag is a tag of a metric that has too many.
type DroppedTag struct {
	By     *Telemetry
	Metric Metric
	Name   string
}

// ChangedMetrics are the metrics that are not as Istio defines them, sorted.
type ChangedMetrics []ChangedMetric

// ChangedMetric is what Telemetries say of one metric.
type ChangedMetric struct {
	Metric   Metric
	Disabled bool
	// Tags are sorted by name.
	Tags []MetricTag
}

// Of returns what Telemetries say of a metric.
func (all ChangedMetrics) Of(m Metric) ChangedMetric {
	for _, c := range all {
		if c.Metric == m {
			return c
		}
	}
	return ChangedMetric{Metric: m, Disabled: !UsualMetrics.Has(m)}
}

// Same reports whether Telemetries say the same of two metrics.
func (c ChangedMetric) Same(other ChangedMetric) bool {
	return c.Disabled == other.Disabled && slices.Equal(c.Tags, other.Tags)
}

// MergedMetrics returns what Telemetries say of the metrics on one side. The Telemetries are those
// of the mesh, the namespace and the workload, in this order.
func MergedMetrics(mesh *MeshConfig, levels []*Telemetry, side WorkloadMode) MetricsTelemetry {
	out := MetricsTelemetry{Prometheus: mesh.Metrics}
	var changed [endOfMetrics]ChangedMetric
	for m := range changed {
		changed[m] = ChangedMetrics(nil).Of(Metric(m))
	}
	for _, t := range levels {
		for _, rule := range t.Metrics {
			if !rule.Inherits {
				out.Prometheus = out.Prometheus || rule.Prometheus
			}
			if !rule.Inherits && !rule.Prometheus {
				continue // for another provider
			}
			for _, o := range rule.Overrides {
				if !o.Mode.covers(side) {
					continue
				}
				o.applyTo(&changed, func(m Metric, tag string) {
					out.Dropped = append(out.Dropped, DroppedTag{By: t, Metric: m, Name: tag})
				})
			}
		}
	}
	for _, c := range changed {
		if !c.Same(ChangedMetrics(nil).Of(c.Metric)) {
			out.Changed = append(out.Changed, c)
		}
	}
	return out
}

func (o *MetricOverride) applyTo(changed *[endOfMetrics]ChangedMetric, dropped func(Metric, string)) {
	for m := range changed {
		if !o.Metrics.Has(Metric(m)) {
			continue
		}
		set(&changed[m].Disabled, o.Disabled)
		for _, tag := range o.Tags {
			with, ok := withTag(changed[m].Tags, tag)
			if changed[m].Tags = with; !ok {
				dropped(Metric(m), tag.Name)
			}
		}
	}
}

// withTag returns tags with another one, in the place of one of the same name. It reports false if
// there are too many.
func withTag(tags []MetricTag, tag MetricTag) (_ []MetricTag, ok bool) {
	at, found := slices.BinarySearchFunc(tags, tag.Name, func(t MetricTag, name string) int {
		return strings.Compare(t.Name, name)
	})
	sets := tag.Format != "" && (!found || tags[at].Format == "")
	if sets && countSet(tags) == MaxMetricTags || !found && len(tags) == MaxTagChanges {
		return tags, false
	}
	tags = slices.Clone(tags)
	if found {
		tags[at] = tag
		return tags, true
	}
	return slices.Insert(tags, at, tag), true
}

// countSet returns how many tags have a value.
func countSet(tags []MetricTag) (n int) {
	for _, t := range tags {
		if t.Format != "" {
			n++
		}
	}
	return n
}
