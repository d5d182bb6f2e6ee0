package collect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// scraped are the metrics of a text.
func scraped(t *testing.T, text string) measure.Metrics {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, text)
	}))
	defer s.Close()
	m, err := measure.Scrape{URL: s.URL, Client: s.Client()}.Metrics(t.Context())
	require.NoError(t, err)
	return m
}

func page(cpu, slow, all int) string {
	return fmt.Sprintf(`# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total %d
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1000
# TYPE pilot_xds gauge
pilot_xds{version="1.30"} 3
pilot_xds{version="1.31"} 4
# TYPE pilot_proxy_convergence_time histogram
pilot_proxy_convergence_time_bucket{le="1"} %d
pilot_proxy_convergence_time_bucket{le="+Inf"} %d
pilot_proxy_convergence_time_sum %d
pilot_proxy_convergence_time_count %d
`, cpu, all-slow, all, 2*all, all)
}

func TestReplicaGrowsWithinAWindow(t *testing.T) {
	before, after := scraped(t, page(10, 1, 5)), scraped(t, page(40, 3, 9))
	end := time.Unix(1100, 0)
	r := ReplicaOf("a", Window{Before: before, After: after, Seconds: 60, End: end})
	require.InDelta(t, 30, r.Counters["process_cpu_seconds_total"], 1e-9)
	require.InDelta(t, 7, r.Gauges["pilot_xds"], 1e-9)
	h := r.Histograms["pilot_proxy_convergence_time"]
	require.InDelta(t, 4, h.Count, 1e-9)
	require.InDelta(t, 8, h.Sum, 1e-9)
	require.InDelta(t, 2, h.Buckets[0].Count, 1e-9)

	r = ReplicaOf("a", Window{After: after, End: end})
	require.InDelta(t, 100, r.Seconds, 1e-9, "since the process started")
	require.InDelta(t, 40, r.Counters["process_cpu_seconds_total"], 1e-9)

	r = ReplicaOf("a", Window{Before: after, After: before, Seconds: 60, End: end})
	require.InDelta(t, 5, r.Histograms["pilot_proxy_convergence_time"].Count, 1e-9, "the process was restarted")
	require.Zero(t, r.Counters["process_cpu_seconds_total"])
}

// prometheusOf answers queries by what they contain.
func prometheusOf(t *testing.T, answers map[string]string) Prometheus {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query().Get("query")
		for part, result := range answers {
			if strings.Contains(query, part) {
				_, _ = fmt.Fprintf(w, `{"status": "success", "data": {"result": [%s]}}`, result)
				return
			}
		}
		_, _ = fmt.Fprint(w, `{"status": "success", "data": {"result": []}}`)
	}))
	t.Cleanup(s.Close)
	return Prometheus{Address: strings.TrimPrefix(s.URL, "http://"), Window: 10 * time.Minute, Client: s.Client()}
}

func TestPrometheusTellsReplicasAndCalls(t *testing.T) {
	p := prometheusOf(t, map[string]string{
		"pilot_info": `{"metric": {"instance": "b:15014"}, "value": [1, "1"]},
			{"metric": {"instance": "a:15014"}, "value": [1, "1"]}`,
		"increase(process_cpu_seconds_total[600s])": `{"metric": {"instance": "a:15014"}, "value": [1, "300"]},
			{"metric": {"instance": "node:9100"}, "value": [1, "999"]}`,
		"pilot_proxy_convergence_time_bucket": `{"metric": {"instance": "a:15014", "le": "1"}, "value": [1, "8"]},
			{"metric": {"instance": "a:15014", "le": "+Inf"}, "value": [1, "10"]}`,
		"pilot_proxy_convergence_time_count": `{"metric": {"instance": "a:15014"}, "value": [1, "10"]}`,
		"(increase(istio_requests_total[600s]))": `
			{"metric": {"source_workload_namespace": "shop", "destination_service": "b.shop.svc.cluster.local"},
			 "value": [1, "12"]},
			{"metric": {"source_workload_namespace": "shop", "destination_service": "unknown"}, "value": [1, "5"]},
			{"metric": {"source_workload_namespace": "unknown", "destination_service": "b.shop.svc.cluster.local"},
			 "value": [1, "5"]}`,
		`reporter="source"}[600s]`:       `{"metric": {}, "value": [1, "1500"]}`,
		`response_code=~"[45].."}[600s]`: `{"metric": {}, "value": [1, "30"]}`,
		metricNaN:                        `{"metric": {"instance": "a:15014"}, "value": [1, "NaN"]}`,
	})
	replicas, err := p.Replicas(t.Context())
	require.NoError(t, err)
	require.Len(t, replicas, 2)
	a := replicas[0]
	require.Equal(t, "a:15014", a.Name)
	require.InDelta(t, 300, a.Counters["process_cpu_seconds_total"], 1e-9)
	require.InDelta(t, 600, a.Seconds, 1e-9)
	require.Len(t, a.Histograms["pilot_proxy_convergence_time"].Buckets, 2)
	require.NotContains(t, a.Gauges, metricNaN)

	calls, err := p.Calls(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]map[model.Host]float64{"shop": {"b.shop.svc.cluster.local": 12}}, calls.ByNamespace)
	require.Equal(t, "Prometheus", calls.Source)
	requests, failed, err := p.Requests(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 1500, requests, 1e-9)
	require.InDelta(t, 30, failed, 1e-9)
}

const metricNaN = "lateen_push_slots"

func TestPrometheusWithoutAControlPlane(t *testing.T) {
	p := prometheusOf(t, nil)
	_, err := p.Replicas(t.Context())
	require.ErrorContains(t, err, "want one that scrapes the control plane")
	calls, err := p.Calls(t.Context())
	require.NoError(t, err)
	require.Equal(t, advise.Calls{}, calls, "nothing is known")
	for _, body := range []string{"", `{"status": "error", "error": "no"}`,
		`{"status": "success", "data": {"result": [{"value": [1]}]}}`} {
		_, err := vectorOf([]byte(body))
		require.Error(t, err, body)
	}
}

func TestCalledHostsAreThoseOfClusters(t *testing.T) {
	called, err := CalledHosts(strings.NewReader(`outbound|80||a.shop.svc.cluster.local::observability_name::x
outbound|80||a.shop.svc.cluster.local::10.0.0.1:80::rq_total::3
outbound|80|v1|a.shop.svc.cluster.local::[2001:db8::1]:80::rq_total::4
outbound|443||tcp.shop.svc.cluster.local::10.0.0.2:443::cx_total::1
outbound|80||never.shop.svc.cluster.local::10.0.0.3:80::rq_total::0
inbound|80||::10.0.0.1:80::rq_total::9
xds-grpc::127.0.0.1:15010::rq_total::9
outbound|80||a.shop.svc.cluster.local::10.0.0.1:80::rq_total::many
`))
	require.NoError(t, err)
	require.Equal(t, map[model.Host]float64{"a.shop.svc.cluster.local": 7, "tcp.shop.svc.cluster.local": 1}, called)
}
