package measure

import (
	"bytes"
	"maps"
	"math"
	"slices"
)

// Quantile returns the q quantile of a histogram, all its series together, of what was observed
// since an earlier reading. It is interpolated within buckets as Prometheus does, in the
// histogram's unit. It is NaN if nothing was observed. The buckets are those of a native histogram
// where the process has one, as Lateen does, and else those with fixed bounds.
func (m Metrics) Quantile(q float64, name string, since Metrics) float64 {
	if now := m.native(name); now != nil {
		if before := since.native(name); before != nil {
			now = now.plus(before, -1)
		}
		return now.cumulative().Quantile(q)
	}
	counts := m.buckets(name)
	for bound, n := range since.buckets(name) {
		counts[bound] -= n
	}
	return counts.Quantile(q)
}

// Cumulative are the buckets of a histogram: how many observations are at most as large as each
// upper bound, the infinite one among them.
type Cumulative map[float64]float64

// Quantile is interpolated within a bucket as Prometheus does. Above the last finite bound it is
// that bound; it is NaN if nothing was observed.
func (c Cumulative) Quantile(q float64) float64 {
	bounds := slices.Sorted(maps.Keys(c))
	if len(bounds) == 0 {
		return math.NaN()
	}
	all := c[bounds[len(bounds)-1]]
	lower, below := 0.0, 0.0
	for _, upper := range bounds {
		n := c[upper]
		if all > 0 && n >= q*all && n > below {
			if math.IsInf(upper, 1) {
				return lower
			}
			return lower + (upper-lower)*(q*all-below)/(n-below)
		}
		lower, below = upper, n
	}
	return math.NaN()
}

// buckets returns the buckets of a histogram, all its series together.
func (m Metrics) buckets(name string) Cumulative {
	counts := Cumulative{}
	for _, metric := range m[name].GetMetric() {
		for _, b := range metric.GetHistogram().GetBucket() {
			counts[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	return counts
}

// Parse reads metrics in Prometheus' text format.
func Parse(text []byte) (Metrics, error) { return parseMetrics(bytes.NewReader(text)) }
