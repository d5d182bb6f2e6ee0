package measure

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scrape is a process seen through its Prometheus metrics, of which process_* and go_memstats_* are read.
type Scrape struct {
	// URL of the metrics: "http://127.0.0.1:15014/metrics".
	URL string
	// Client asks; nil stands for http.DefaultClient.
	Client *http.Client
}

// scrapeTimeout bounds one question: a control plane under load takes its time.
const scrapeTimeout = 30 * time.Second

// Metrics are those of a process at one time, by name.
type Metrics map[string]*dto.MetricFamily

// Metrics reads them.
func (s Scrape) Metrics(ctx context.Context) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return nil, err
	}
	client := s.Client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the control plane's metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, response.Body)
		return nil, fmt.Errorf("the control plane's metrics: %s: %s", s.URL, response.Status)
	}
	m, err := parseMetrics(response.Body)
	if err != nil {
		return nil, fmt.Errorf("the control plane's metrics: %s: %w", s.URL, err)
	}
	return m, nil
}

// parseMetrics reads Prometheus' text format.
func parseMetrics(text io.Reader) (m Metrics, err error) {
	defer func() { // the parser has a panic for texts that begin with braces: that must not end a run of hours
		if r := recover(); r != nil {
			m, err = nil, fmt.Errorf("this is no text of Prometheus: %v", r)
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(text)
}

// Usage implements Process.
func (s Scrape) Usage(ctx context.Context) (Usage, error) {
	m, err := s.Metrics(ctx)
	if err != nil {
		return Usage{}, err
	}
	u := m.usage()
	u.At = time.Now()
	return u, nil
}

// usage is all that they tell.
func (m Metrics) usage() Usage {
	u := Usage{CPU: m.time("process_cpu_seconds_total"), Resident: whole(m.Sum("process_resident_memory_bytes"))}
	m.tell(&u)
	return u
}

// tell adds what only the process itself knows.
func (m Metrics) tell(u *Usage) {
	u.Queued = whole(m.Sum("lateen_xds_queued_bytes"))
	u.Allocated, u.Allocations = uint64(whole(m.Sum("go_memstats_alloc_bytes_total"))), uint64(whole(m.Sum("go_memstats_mallocs_total")))
	u.Collecting = m.time("go_cpu_classes_gc_total_cpu_seconds_total")
}

// time is a counter of seconds.
func (m Metrics) time(name string) time.Duration {
	return time.Duration(whole(m.Sum(name) * float64(time.Second)))
}

// whole is a number that was read as an integer: 0 for what is none or below it, and the largest for what is above that.
func whole(v float64) int64 {
	switch {
	case !(v > 0): // NaN too
		return 0
	case v >= math.MaxInt64:
		return math.MaxInt64
	}
	return int64(v)
}

// Sum adds up all series of a counter or a gauge; 0 if there are none.
func (m Metrics) Sum(name string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sum
}

// Label is the value of a label of a metric's first series, or empty.
func (m Metrics) Label(name, label string) string {
	for _, metric := range m[name].GetMetric() {
		for _, l := range metric.GetLabel() {
			if l.GetName() == label {
				return l.GetValue()
			}
		}
	}
	return ""
}

// Both is a process seen through /proc, with what only its own metrics tell of allocations.
type Both struct {
	PID    PID
	Scrape Scrape
}

// Usage implements Process.
func (b Both) Usage(ctx context.Context) (Usage, error) {
	m, err := b.Scrape.Metrics(ctx)
	if err != nil {
		return Usage{}, err
	}
	u, err := b.PID.Usage(ctx) // the question has cost something: it is in both looks
	m.tell(&u)
	return u, err
}
