package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scrape is a process seen through its Prometheus metrics process_* and go_memstats_*.
type Scrape struct {
	// URL is the address of the metrics: "http://127.0.0.1:15014/metrics".
	URL string
	// Client makes the request. nil means http.DefaultClient.
	Client *http.Client
	// Timeout bounds one request; 0: 30 s. A control plane under load answers late.
	Timeout time.Duration
}

const scrapeTimeout = 30 * time.Second

// Metrics are a process's metrics at one time, by name.
type Metrics map[string]*dto.MetricFamily

// Metrics reads the metrics.
func (s Scrape) Metrics(ctx context.Context) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, scrapeTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accepted)
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
	m, err := readMetrics(response)
	if err != nil {
		return nil, fmt.Errorf("the control plane's metrics: %s: %w", s.URL, err)
	}
	return m, nil
}

// accepted prefers the format that has native histograms.
const accepted = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7," +
	"text/plain;version=0.0.4;q=0.3"

// readMetrics reads an answer in either format.
func readMetrics(response *http.Response) (Metrics, error) {
	if expfmt.ResponseFormat(response.Header).FormatType() != expfmt.TypeProtoDelim {
		return parseMetrics(response.Body)
	}
	decoder, m := expfmt.NewDecoder(response.Body, expfmt.NewFormat(expfmt.TypeProtoDelim)), Metrics{}
	for {
		family := &dto.MetricFamily{}
		switch err := decoder.Decode(family); {
		case errors.Is(err, io.EOF):
			return m, nil
		case err != nil:
			return nil, err
		}
		m[family.GetName()] = family
	}
}

// parseMetrics parses Prometheus' text format.
func parseMetrics(text io.Reader) (m Metrics, err error) {
	defer func() { // the parser panics on texts that begin with braces, which must not end a run of hours
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

// usage returns everything that the metrics tell.
func (m Metrics) usage() Usage {
	u := Usage{CPU: m.time("process_cpu_seconds_total"), Resident: toInt64(m.Sum("process_resident_memory_bytes"))}
	m.addRuntime(&u)
	return u
}

// addRuntime adds the numbers that only the process itself knows.
func (m Metrics) addRuntime(u *Usage) {
	u.Queued = toInt64(m.Sum("lateen_xds_queued_bytes"))
	u.Allocated, u.Allocations = uint64(
		toInt64(m.Sum("go_memstats_alloc_bytes_total")),
	), uint64(toInt64(m.Sum("go_memstats_mallocs_total")))
	u.GCTime = m.time("go_cpu_classes_gc_total_cpu_seconds_total")
}

// time returns a counter of seconds.
func (m Metrics) time(name string) time.Duration {
	return time.Duration(toInt64(m.Sum(name) * float64(time.Second)))
}

// toInt64 converts a number. It returns 0 for NaN and numbers below 0, and saturates.
func toInt64(v float64) int64 {
	switch {
	case !(v > 0): // NaN too
		return 0
	case v >= math.MaxInt64:
		return math.MaxInt64
	}
	return int64(v)
}

// Sum adds up all series of a counter or a gauge. It returns 0 if there are none.
func (m Metrics) Sum(name string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sum
}

// Label returns a label of a metric's first series, or "".
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

// PIDWithMetrics is a process seen through /proc, with the allocations from its own metrics.
type PIDWithMetrics struct {
	PID    PID
	Scrape Scrape
}

// Usage implements Process.
func (b PIDWithMetrics) Usage(ctx context.Context) (Usage, error) {
	m, err := b.Scrape.Metrics(ctx)
	if err != nil {
		return Usage{}, err
	}
	u, err := b.PID.Usage(ctx) // after the scrape, so that both ends of a measurement include its cost
	m.addRuntime(&u)
	return u, err
}
