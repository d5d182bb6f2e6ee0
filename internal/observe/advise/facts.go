package advise

import (
	"math"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/census"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Facts are what is known of a mesh and its control plane. What is not known is empty.
type Facts struct {
	Time   time.Time
	Census census.Census
	// Replicas are the metrics of the control plane. Without them no signal is judged.
	Replicas []Replica
	Proxies  []Proxy
	// Events are the changes of objects in the window, by namespace; nil if they are not known.
	Events map[string]float64
	// Costs are of changes in the window.
	Costs    Costs
	Calls    Calls
	Settings Settings
	// Autoscaler is that of the control plane; nil if there is none or it is not known.
	Autoscaler *Autoscaler
	// Requests are those of the whole mesh, a second, and Failed those of them that are answered
	// with 400 or more. 0 if they are not known.
	Requests, Failed float64
	// InCluster is set if the control plane runs in Kubernetes.
	InCluster bool
}

// Proxy is one connected proxy.
type Proxy struct {
	Namespace   string
	Router      bool
	Clusters    int
	ConfigBytes int
}

// Calls say who calls whom.
type Calls struct {
	// Source says where this is known from; empty if it is not known.
	Source string
	// ByNamespace are requests and connections by the caller's namespace and the called host.
	ByNamespace map[string]map[model.Host]float64
}

// Settings are those of the control plane. Known is false if it was not asked.
type Settings struct {
	Known                                     bool
	DebounceAfter, DebounceEarly, DebounceMax float64 // seconds
	AllClusters                               bool
	// Selects is set if discovery selectors are in force where the objects come from.
	Selects bool
}

// Autoscaler are the bounds of a HorizontalPodAutoscaler, and how many replicas it has now.
type Autoscaler struct{ Min, Max, Current int }

// Replica are the metrics of one replica: what counters and histograms grew by in the window, and
// gauges at its end. Names are those of the metrics.
type Replica struct {
	Name       string
	Seconds    float64 // of the window
	Counters   map[string]float64
	Gauges     map[string]float64
	Histograms map[string]Histogram
}

// Histogram is what a histogram grew by.
type Histogram struct {
	Count, Sum float64
	Buckets    []Bucket // by upper bound; counts are cumulative
}

// Bucket is one bucket.
type Bucket struct{ UpperBound, Count float64 }

// The metrics that facts are made of.
const (
	metricConvergence   = "pilot_proxy_convergence_time"
	metricQueueTime     = "pilot_proxy_queue_time"
	metricInit          = "pilot_pushcontext_init_seconds"
	metricCompile       = "lateen_compile_seconds"
	metricConfigSize    = "pilot_xds_config_size_bytes"
	metricDebounce      = "pilot_debounce_time"
	metricPushTime      = "pilot_xds_push_time"
	metricCPU           = "process_cpu_seconds_total"
	metricPushes        = "pilot_xds_pushes"
	metricUpdates       = "pilot_inbound_updates"
	metricPushBusy      = "lateen_push_busy_seconds_total"
	metricRejects       = "pilot_total_xds_rejects"
	metricWriteTimeouts = "pilot_xds_write_timeout"
	metricInternal      = "pilot_total_xds_internal_errors"
	metricCPUs          = "go_sched_gomaxprocs_threads"
	metricMemory        = "process_resident_memory_bytes"
	metricMemoryLimit   = "go_gc_gomemlimit_bytes"
	metricSlots         = "lateen_push_slots"
	metricProxies       = "pilot_xds"
	metricServices      = "pilot_services"
	metricStale         = "lateen_stale_proxies"
)

// CounterNames are the counters to collect.
func CounterNames() []string {
	return []string{
		metricCPU, metricPushes, metricUpdates, metricPushBusy, metricRejects, metricWriteTimeouts, metricInternal,
	}
}

// GaugeNames are the gauges to collect. Series of one replica are added up.
func GaugeNames() []string {
	return []string{
		metricCPUs, metricMemory, metricMemoryLimit, metricSlots, metricProxies, metricServices, metricStale,
	}
}

// HistogramNames are the histograms to collect. Series of one replica are added up.
func HistogramNames() []string {
	return []string{
		metricConvergence, metricQueueTime, metricInit, metricCompile, metricConfigSize, metricDebounce, metricPushTime,
	}
}

// rate returns how much a counter of all replicas grows each second.
func (f *Facts) rate(name string) (sum float64) {
	for i := range f.Replicas {
		sum += f.Replicas[i].rate(name)
	}
	return sum
}

// increase returns how much a counter of all replicas grew.
func (f *Facts) increase(name string) (sum float64) {
	for i := range f.Replicas {
		sum += f.Replicas[i].Counters[name]
	}
	return sum
}

// histogram returns a histogram over all replicas.
func (f *Facts) histogram(name string) Histogram {
	var sum Histogram
	for i := range f.Replicas {
		h := f.Replicas[i].Histograms[name]
		sum.Count += h.Count
		sum.Sum += h.Sum
		for _, b := range h.Buckets {
			at := slices.IndexFunc(sum.Buckets, func(x Bucket) bool { return x.UpperBound == b.UpperBound })
			if at < 0 {
				sum.Buckets = append(sum.Buckets, b)
				continue
			}
			sum.Buckets[at].Count += b.Count
		}
	}
	return sum
}

// rate returns how much a counter grows each second.
func (r *Replica) rate(name string) float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return r.Counters[name] / r.Seconds
}

// cpuShare returns the share of its CPUs that a replica uses.
func (r *Replica) cpuShare() float64 { return share(r.rate(metricCPU), r.cpus()) }

func (r *Replica) cpus() float64 { return r.Gauges[metricCPUs] }

// slotShare returns the share of its push slots that a replica uses.
func (r *Replica) slotShare() float64 { return share(r.rate(metricPushBusy), r.Gauges[metricSlots]) }

// noLimit is more than any machine has. Go's runtime says so if there is no limit.
const noLimit = 1 << 60

// memoryShare returns the share of its memory that a replica uses; 0 without a limit.
func (r *Replica) memoryShare() float64 {
	if limit := r.Gauges[metricMemoryLimit]; limit < noLimit {
		return share(r.Gauges[metricMemory], limit)
	}
	return 0
}

// fullest returns the largest value of a replica.
func (f *Facts) fullest(of func(*Replica) float64) (most float64) {
	for i := range f.Replicas {
		most = max(most, of(&f.Replicas[i]))
	}
	return most
}

// share divides; by nothing it is 0.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// quantile returns a quantile as Prometheus computes it. It is 0 without observations.
func (h Histogram) quantile(q float64) float64 {
	if h.Count <= 0 || len(h.Buckets) == 0 {
		return 0
	}
	counts := measure.Cumulative{math.Inf(1): h.Count}
	for _, b := range h.Buckets {
		counts[b.UpperBound] = b.Count
	}
	return counts.Quantile(q)
}

// numProxies returns how many sidecars, or gateways, are connected.
func (f *Facts) numProxies(router bool) (n int) {
	for _, p := range f.Proxies {
		if p.Router == router {
			n++
		}
	}
	return n
}
