package collect

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// processStart is when the process of the control plane started, in seconds since 1970.
const processStart = "process_start_time_seconds"

// Window is what a replica said at its two ends. Without Before it begins when the process started.
type Window struct {
	Before, After measure.Metrics
	Seconds       float64
	End           time.Time
}

// ReplicaOf returns what the metrics of a replica grew by.
func ReplicaOf(name string, w Window) advise.Replica {
	before, after, seconds := w.Before, w.After, w.Seconds
	if before == nil {
		seconds = max(w.End.Sub(time.Unix(int64(after.Sum(processStart)), 0)).Seconds(), 1)
	}
	r := newReplica(name, seconds)
	for _, metric := range advise.CounterNames() {
		r.Counters[metric] = max(0, after.Sum(metric)-before.Sum(metric))
	}
	for _, metric := range advise.GaugeNames() {
		r.Gauges[metric] = after.Sum(metric)
	}
	for _, metric := range advise.HistogramNames() {
		r.Histograms[metric] = difference(histogramOf(before, metric), histogramOf(after, metric))
	}
	return r
}

func newReplica(name string, seconds float64) advise.Replica {
	return advise.Replica{
		Name: name, Seconds: seconds, Counters: map[string]float64{}, Gauges: map[string]float64{},
		Histograms: map[string]advise.Histogram{},
	}
}

// histogramOf adds up the series of a histogram.
func histogramOf(m measure.Metrics, name string) (sum advise.Histogram) {
	counts := map[float64]float64{}
	var bounds []float64
	for _, series := range m[name].GetMetric() {
		h := series.GetHistogram()
		sum.Count += float64(h.GetSampleCount())
		sum.Sum += h.GetSampleSum()
		for _, b := range h.GetBucket() {
			if _, known := counts[b.GetUpperBound()]; !known {
				bounds = append(bounds, b.GetUpperBound())
			}
			counts[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	for _, bound := range bounds {
		sum.Buckets = append(sum.Buckets, advise.Bucket{UpperBound: bound, Count: counts[bound]})
	}
	return sum
}

// difference subtracts an earlier histogram. Counts that fell belong to a process that was
// restarted, and count from 0.
func difference(before, after advise.Histogram) advise.Histogram {
	if after.Count < before.Count {
		return after
	}
	earlier := map[float64]float64{}
	for _, b := range before.Buckets {
		earlier[b.UpperBound] = b.Count
	}
	after.Count -= before.Count
	after.Sum -= before.Sum
	for i := range after.Buckets {
		after.Buckets[i].Count -= earlier[after.Buckets[i].UpperBound]
	}
	return after
}
