package measure

import (
	"maps"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// native is what a native histogram of Prometheus counts, all its series together: observations by
// bucket, of which the one with index i ends at 2^(i·2^-schema)
// (https://prometheus.io/docs/specs/native_histograms/). Durations are never negative, so that these
// buckets are left out.
type native struct {
	schema int32
	zero   float64 // how many are in the bucket that ends at zeroThreshold
	// zeroThreshold is the largest of all series.
	zeroThreshold float64
	counts        map[int]float64
}

// native returns the native histogram of a name; nil if a series has none.
func (m Metrics) native(name string) *native {
	var sum *native
	for _, metric := range m[name].GetMetric() {
		h := metric.GetHistogram()
		if h == nil || h.Schema == nil {
			return nil
		}
		next := readNative(h)
		if sum != nil {
			next = sum.plus(next, 1)
		}
		sum = next
	}
	return sum
}

func readNative(h *dto.Histogram) *native {
	n := &native{
		schema: h.GetSchema(), zero: float64(h.GetZeroCount()), zeroThreshold: h.GetZeroThreshold(),
		counts: map[int]float64{},
	}
	index, i, count := 0, 0, 0.0
	for _, span := range h.GetPositiveSpan() {
		index += int(span.GetOffset())
		for range span.GetLength() {
			switch {
			case i < len(h.GetPositiveDelta()):
				count += float64(h.GetPositiveDelta()[i])
			case i < len(h.GetPositiveCount()):
				count = h.GetPositiveCount()[i]
			default:
				return n // cut off
			}
			n.counts[index] = count
			index++
			i++
		}
	}
	return n
}

// at returns the histogram with the wider buckets of a lower schema.
func (n *native) at(schema int32) *native {
	if schema >= n.schema {
		return n
	}
	width := int(1) << min(n.schema-schema, 30)
	wide := &native{schema: schema, zero: n.zero, zeroThreshold: n.zeroThreshold, counts: map[int]float64{}}
	for i, count := range n.counts {
		wide.counts[int(math.Ceil(float64(i)/float64(width)))] += count
	}
	return wide
}

// plus adds another histogram so many times, in the wider buckets of the two: a histogram makes its
// buckets wider when there would be too many.
func (n *native) plus(o *native, times float64) *native {
	a, b := n.at(o.schema), o.at(n.schema)
	sum := &native{
		schema: a.schema, zero: a.zero + times*b.zero, zeroThreshold: max(a.zeroThreshold, b.zeroThreshold),
		counts: map[int]float64{},
	}
	for i, count := range a.counts {
		sum.counts[i] += count
	}
	for i, count := range b.counts {
		sum.counts[i] += times * count
	}
	return sum
}

// cumulative returns the buckets by their upper bounds. An empty one before each that follows a gap
// keeps what is interpolated within it.
func (n *native) cumulative() Cumulative {
	below := n.zero
	counts := Cumulative{n.zeroThreshold: below}
	for _, i := range slices.Sorted(maps.Keys(n.counts)) {
		counts[n.bound(i-1)] = below
		below += n.counts[i]
		counts[n.bound(i)] = below
	}
	return counts
}

// bound is the upper bound of a bucket.
func (n *native) bound(index int) float64 {
	return math.Exp2(float64(index) * math.Exp2(-float64(n.schema)))
}
