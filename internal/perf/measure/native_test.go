package measure

import (
	"math"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// process is a scraped process with one histogram, of two series.
type process struct {
	histogram *prometheus.HistogramVec
	scrape    Scrape
}

func newProcess(t *testing.T, native bool) *process {
	opts := prometheus.HistogramOpts{Name: "seconds", Help: "h", Buckets: []float64{0.1, 0.5, 1, 3}}
	if native {
		opts.NativeHistogramBucketFactor, opts.NativeHistogramMaxBucketNumber = 1.1, 40
	}
	p := &process{histogram: prometheus.NewHistogramVec(opts, []string{"type"})}
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.histogram)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	p.scrape = Scrape{URL: server.URL, Client: server.Client()}
	return p
}

func (p *process) observe(seconds []float64) {
	for i, s := range seconds {
		p.histogram.WithLabelValues([]string{"cds", "eds"}[i%2]).Observe(s)
	}
}

// The quantile of what was observed between two readings is right to what its buckets tell apart,
// also when they become wider in between because there would be too many.
func TestQuantilesOfNativeHistogramsAreRight(t *testing.T) {
	durations := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 {
		return math.Pow(10, rapid.Float64Range(-5, 2).Draw(t, "log"))
	}), 2, 60)
	rapid.Check(t, func(r *rapid.T) {
		p := newProcess(t, true)
		p.observe(durations.Draw(r, "before"))
		before, err := p.scrape.Metrics(t.Context())
		require.NoError(r, err)
		observed := durations.Draw(r, "after")
		p.observe(observed)
		after, err := p.scrape.Metrics(t.Context())
		require.NoError(r, err)
		slices.Sort(observed)
		for _, q := range []float64{0.5, 0.9, 0.99} {
			exact := observed[int(math.Ceil(q*float64(len(observed))))-1]
			got := after.Quantile(q, "seconds", before)
			widest := math.Exp2(math.Exp2(-float64(after.native("seconds").schema)))
			require.LessOrEqual(r, got, exact*widest)
			require.GreaterOrEqual(r, got, exact/widest)
		}
	})
}

func TestQuantilesBelowIstiodsFirstBucket(t *testing.T) {
	for native, want := range map[bool]float64{true: 0.004, false: 0.099} {
		p := newProcess(t, native)
		for range 1000 {
			p.observe([]float64{0.002, 0.004})
		}
		now, err := p.scrape.Metrics(t.Context())
		require.NoError(t, err)
		require.InEpsilon(t, want, now.Quantile(0.99, "seconds", nil), 0.1)
		require.True(t, math.IsNaN(now.Quantile(0.99, "seconds", now)), "nothing was observed since")
		require.True(t, math.IsNaN(now.Quantile(0.99, "others", nil)))
	}
}
