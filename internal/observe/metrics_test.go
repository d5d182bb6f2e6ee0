package observe_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// Names, types, labels and buckets are an interface: dashboards and alerts of users depend on them.
func TestMetricsAreAsDocumented(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := observe.New(observe.Build{
		Version: "1.2.3",
		Start:   start,
		Now:     func() time.Time { return start.Add(time.Minute) },
	})
	touch(reflect.ValueOf(m).Elem())
	families, err := m.Registry.Gather()
	require.NoError(t, err)

	var got strings.Builder
	runtime := map[string]bool{}
	for _, f := range families {
		if prefix, _, _ := strings.Cut(f.GetName(), "_"); prefix == "go" || prefix == "process" {
			runtime[prefix] = true
			continue
		}
		got.WriteString(describe(f))
	}
	require.Equal(t, map[string]bool{"go": true, "process": true}, runtime)

	golden.File(t, "testdata/metrics.golden", got.String())
}

func TestUptimeCountsFromStart(t *testing.T) {
	start := time.Unix(1000, 0)
	m := observe.New(observe.Build{
		Version: "v",
		Start:   start,
		Now:     func() time.Time { return start.Add(90 * time.Second) },
	})
	families, err := m.Registry.Gather()
	require.NoError(t, err)
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "istiod_uptime_seconds" })
	require.GreaterOrEqual(t, i, 0)
	require.InDelta(t, 90, families[i].GetMetric()[0].GetGauge().GetValue(), 0)
}

func TestLoggerFormats(t *testing.T) {
	var out bytes.Buffer
	log, err := observe.NewLogger(&out, slog.LevelInfo, observe.JSON)
	require.NoError(t, err)
	log.Debug("hidden")
	log.Info("shown", "proxy", "reviews-v1.default")
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), `"proxy":"reviews-v1.default"`)

	_, err = observe.NewLogger(&out, slog.LevelInfo, "xml")
	require.EqualError(t, err, `log format "xml" does not exist; want "text" or "json"`)
}

// touch makes one series of each vector, so that a scrape shows it.
func touch(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			touch(v.Field(i))
		}
		return
	case reflect.Map:
		for _, k := range v.MapKeys() {
			touch(v.MapIndex(k))
		}
		return
	}
	collector, ok := v.Interface().(prometheus.Collector)
	if !ok {
		return
	}
	for n := 1; n <= 4; n++ { // label values must be as many as labels: one of these is right
		values := slices.Repeat([]string{"x"}, n)
		switch vec := collector.(type) {
		case *prometheus.CounterVec:
			_, _ = vec.GetMetricWithLabelValues(values...)
		case *prometheus.GaugeVec:
			_, _ = vec.GetMetricWithLabelValues(values...)
		case *prometheus.HistogramVec:
			_, _ = vec.GetMetricWithLabelValues(values...)
		}
	}
}

func describe(f *dto.MetricFamily) string {
	series := f.GetMetric()[0]
	var labels, buckets []string
	for _, l := range series.GetLabel() {
		labels = append(labels, l.GetName())
	}
	for _, b := range series.GetHistogram().GetBucket() {
		buckets = append(buckets, fmt.Sprint(b.GetUpperBound()))
	}
	line := fmt.Sprintf("%s %s {%s}", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ","))
	if buckets != nil {
		line += " " + strings.Join(buckets, " ")
	}
	return line + "\n"
}
