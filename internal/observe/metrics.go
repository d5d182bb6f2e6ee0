package observe

import (
	"regexp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are all metrics of one process, registered with a registry of their own.
type Metrics struct {
	Registry *prometheus.Registry

	Source  Source
	Keys    Keys
	Mesh    Mesh
	Compile Compile
	XDS     XDS
	Push    Push

	Admission Admission
	Injection Injection
	Status    Status
	CA        CA
	Machines  Machines

	// Drops counts what was dropped to keep a queue bounded, by reason: "history" (a report that is
	// not remembered), "history_disk" (one that is not on disk), "push_record" (a record of a push
	// that nobody read), "open_push" (a push whose last ACK was not waited for),
	// "health_of_no_entry" (the health of a workload that has no WorkloadEntry),
	// "distrusted_name" (a name whose version a proxy's next stream would not have believed).
	// lateen_drops_total.
	Drops *prometheus.CounterVec
}

// Build says which version runs, and since when.
type Build struct {
	Version string
	Start   time.Time
	Now     func() time.Time
}

// New makes and registers all metrics.
func New(build Build) *Metrics {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectionTime)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	f := promauto.With(reg)
	describeBuild(f, build)
	m := &Metrics{
		Registry:  reg,
		Source:    newSource(f),
		Keys:      newKeys(f),
		Mesh:      newMesh(f),
		Compile:   newCompile(f),
		XDS:       newXDS(f),
		Push:      newPush(f),
		Admission: newAdmission(f),
		Machines:  newMachines(f),
		Injection: newInjection(f),
		Status:    newStatus(f),
		CA:        newCA(f, build.Now),
		Drops:     counters(f, "lateen_drops_total", "Things thrown away to keep a queue bounded.", "reason"),
	}
	return m
}

// Reading is a gauge whose value is computed when it is asked for; 0 before Set.
type Reading struct {
	value atomic.Pointer[func() float64]
}

// Set has value computed from now on. It may be called by anyone.
func (r *Reading) Set(value func() float64) { r.value.Store(&value) }

func reading(f promauto.Factory, name, help string) *Reading {
	r := &Reading{}
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if value := r.value.Load(); value != nil {
			return (*value)()
		}
		return 0
	})
	return r
}

// collectionTime selects the CPU time of garbage collection, which Go's runtime reports beside its
// usual metrics.
var collectionTime = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/cpu/classes/gc/total:cpu-seconds$`)}

func describeBuild(f promauto.Factory, build Build) {
	f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "istio_build", Help: "Component build info.",
	}, []string{"component", "tag"}).WithLabelValues("pilot", build.Version).Set(1)
	f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pilot_info", Help: "Version of the control plane.",
	}, []string{"version"}).WithLabelValues(build.Version).Set(1)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "istiod_uptime_seconds", Help: "Seconds since the control plane started.",
	}, func() float64 { return build.Now().Sub(build.Start).Seconds() })
}

func counter(f promauto.Factory, name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(f promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(f promauto.Factory, name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func gauges(f promauto.Factory, name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histogram(f promauto.Factory, name, help string, buckets ...float64) prometheus.Histogram {
	return f.NewHistogram(histogramOpts(name, help, buckets))
}

func histograms(f promauto.Factory, name, help, label string, buckets ...float64) *prometheus.HistogramVec {
	return f.NewHistogramVec(histogramOpts(name, help, buckets), []string{label})
}

const (
	// nativeGrowth is by how much a bucket of a native histogram is larger than the one before it,
	// so that a quantile is right to 5 %.
	nativeGrowth = 1.1
	// maxNativeBuckets bounds the buckets of a native histogram. From a microsecond to ten minutes
	// there are 212; above the bound they are made larger.
	maxNativeBuckets = 160
)

// histogramOpts has the buckets that others' rules name, which are istiod's where it has the
// metric, and those of a native histogram beside them. A scraper gets these if it asks for them.
// Nearly all of what a control plane does takes less than istiod's first bucket.
func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: nativeGrowth, NativeHistogramMaxBucketNumber: maxNativeBuckets,
	}
}
