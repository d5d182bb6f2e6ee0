package metrics

import (
	"bytes"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

func TestPrometheusReadsWhatIsWritten(t *testing.T) {
	r := &Registry{}
	r.Counter("b_total", "B.", "type", "x").Add(2)
	r.Counter("b_total", "B.", "type", "y\"\\\n").Inc()
	r.Gauge("a", "A.", func() float64 { return 0.5 })
	var b bytes.Buffer
	require.NoError(t, r.Write(&b))
	require.Equal(t, `# HELP a A.
# TYPE a gauge
a 0.5
# HELP b_total B.
# TYPE b_total counter
b_total{type="x"} 2
b_total{type="y\"\\\n"} 1
`, b.String())
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&b)
	require.NoError(t, err)
	require.Len(t, families, 2)
	require.Equal(t, "y\"\\\n", families["b_total"].GetMetric()[1].GetLabel()[0].GetValue())
}

func TestHistogramsCountUpToTheirBounds(t *testing.T) {
	r := &Registry{}
	h := r.Histogram("h", "H.", 0.1, 1)
	for _, v := range []float64{0.1, 0.5, 7} {
		h.Observe(v)
	}
	var b bytes.Buffer
	require.NoError(t, r.Write(&b))
	require.Equal(t, `# HELP h H.
# TYPE h histogram
h_bucket{le="0.1"} 1
h_bucket{le="1"} 2
h_bucket{le="+Inf"} 3
h_sum 7.6
h_count 3
`, b.String())
}

func TestProcess(t *testing.T) {
	r := &Registry{}
	Process(r, "istio_agent_")
	var b bytes.Buffer
	require.NoError(t, r.Write(&b))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&b)
	require.NoError(t, err)
	for _, name := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "process_resident_memory_bytes"} {
		require.Positive(t, families["istio_agent_"+name].GetMetric()[0].GetGauge().GetValue(), name)
	}
}
