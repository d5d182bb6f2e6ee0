package lab

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

const (
	// metricDestinations is how many services each proxy calls, and metricRate how many requests a
	// second it sends to each.
	metricDestinations = 3
	metricRate         = 20.0
)

// metricBounds are the upper bounds of Istio's histograms: milliseconds, or bytes.
func metricBounds() []string {
	return []string{
		"0.5", "1", "5", "10", "25", "50", "100", "250", "500", "1000", "2500", "5000", "10000", "30000", "60000",
		"300000", "600000", "1800000", "3600000", "+Inf",
	}
}

// metricHistograms are the names of the histograms of Istio's standard metrics. Beside them there
// is istio_requests_total.
func metricHistograms() []string {
	return []string{"istio_request_duration_milliseconds", "istio_request_bytes", "istio_response_bytes"}
}

// proxySeries returns how many series a proxy has: for each destination the counter of requests,
// and of each histogram its buckets, sum and count.
func proxySeries() int {
	return metricDestinations * (1 + len(metricHistograms())*(len(metricBounds())+2))
}

// proxyMetrics are Istio's standard metrics of one proxy, which grow with time. Every series
// changes, as of a proxy whose application is called all the time. It is safe for concurrent use.
type proxyMetrics struct {
	names []string // of the series, with labels

	mu     sync.Mutex
	random *rand.Rand
	values []uint64
	now    time.Time
}

// newProxyMetrics returns those of the nth proxy.
func newProxyMetrics(n int, now time.Time) *proxyMetrics {
	m := &proxyMetrics{random: rand.New(rand.NewPCG(uint64(n), 0)), now: now}
	for d := range metricDestinations {
		labels := metricLabels(n, d)
		m.names = append(m.names, "istio_requests_total{"+labels+"}")
		for _, h := range metricHistograms() {
			for _, bound := range metricBounds() {
				m.names = append(m.names, h+"_bucket{"+labels+`,le="`+bound+`"}`)
			}
			m.names = append(m.names, h+"_sum{"+labels+"}", h+"_count{"+labels+"}")
		}
	}
	m.values = make([]uint64, len(m.names))
	return m
}

// metricLabels are the labels of the requests of a proxy to a service.
func metricLabels(proxy, destination int) string {
	from, to := fmt.Sprintf("app-%04d", proxy), fmt.Sprintf("app-%04d", proxy+1+destination)
	namespace := fmt.Sprintf("test-ns-%03d", proxy%100)
	return fmt.Sprintf(`reporter="source",source_workload=%q,source_workload_namespace=%[3]q,`+
		`source_principal="spiffe://cluster.local/ns/%[3]s/sa/default",source_app=%[1]q,source_version="v1",`+
		`source_cluster="Kubernetes",source_canonical_service=%[1]q,source_canonical_revision="v1",`+
		`destination_workload=%[2]q,destination_workload_namespace=%[3]q,`+
		`destination_principal="spiffe://cluster.local/ns/%[3]s/sa/default",destination_app=%[2]q,`+
		`destination_version="v1",destination_cluster="Kubernetes",destination_canonical_service=%[2]q,`+
		`destination_canonical_revision="v1",destination_service="%[2]s.%[3]s.svc.cluster.local",`+
		`destination_service_name=%[2]q,destination_service_namespace=%[3]q,request_protocol="http",`+
		`response_code="200",grpc_response_status="",response_flags="-",connection_security_policy="unknown"`,
		from, to, namespace)
}

// write writes all series as of a time. suffix stands behind each value.
func (m *proxyMetrics) write(to io.Writer, now time.Time, suffix string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grow(now)
	out := bufio.NewWriter(to)
	for i, name := range m.names {
		_, _ = out.WriteString(name) // Flush has the error
		_ = out.WriteByte(' ')
		_, _ = out.WriteString(strconv.FormatUint(m.values[i], 10))
		_, _ = out.WriteString(suffix)
		_ = out.WriteByte('\n')
	}
	return out.Flush()
}

// grow adds the requests since the last time.
func (m *proxyMetrics) grow(now time.Time) {
	mean := metricRate * max(0, now.Sub(m.now).Seconds())
	m.now = now
	at := 0
	for range metricDestinations {
		requests := uint64(mean * (0.5 + m.random.Float64()))
		m.values[at] += requests
		at++
		for range metricHistograms() {
			at = m.growHistogram(at, requests)
		}
	}
}

// growHistogram adds requests to the buckets, the sum and the count that begin at a place. It
// returns the place behind them.
func (m *proxyMetrics) growHistogram(at int, requests uint64) int {
	buckets := len(metricBounds())
	below := uint64(0)
	for i := range buckets {
		if i == buckets-1 {
			below = requests
		} else { // most are within the first bounds
			below += uint64(float64(requests-below) * m.random.Float64())
		}
		m.values[at+i] += below
	}
	m.values[at+buckets] += requests * uint64(5+m.random.IntN(20))
	m.values[at+buckets+1] += requests
	return at + buckets + 2
}
