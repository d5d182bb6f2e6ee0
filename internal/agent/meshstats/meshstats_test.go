package meshstats

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

var reviews = Self{
	Workload: proxystats.Workload{
		Name: "reviews-v1", Namespace: "shop", CanonicalName: "reviews", CanonicalRevision: "v1",
		Cluster: "Kubernetes", App: "reviews", Version: "v1",
	},
	Principal: "spiffe://cluster.local/ns/shop/sa/reviews",
}

// rewritten returns what becomes of an exposition, and how many lines were left out.
func rewritten(t testing.TB, text string) (string, int) {
	t.Helper()
	var b strings.Builder
	w := NewWriter(&b, reviews)
	_, err := io.Copy(w, strings.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String(), w.Dropped()
}

// exposition is what Envoy writes for a sidecar.
const exposition = `# TYPE envoy_server_live gauge
envoy_server_live{} 1
# TYPE envoy_istiocustom_istio_tcp_sent_bytes_total counter
envoy_istiocustom_istio_tcp_sent_bytes_total{fields="1s - spiffe://cluster.local/ns/db/sa/db outbound|5432||db.db.svc.cluster.local db;db;db;v9;"} 327
envoy_istiocustom_istio_tcp_sent_bytes_total{fields="1d UF  "} 1
# TYPE envoy_istiocustom_istio_request_duration_milliseconds histogram
envoy_istiocustom_istio_request_duration_milliseconds_bucket{fields="1s 200  -  outbound|80|v1|a.b.svc a;b;a;latest;;;",le="0.5"} 1
envoy_istiocustom_istio_request_duration_milliseconds_bucket{fields="1s 200  -  outbound|80|v1|a.b.svc a;b;a;latest;;;",le="+Inf"} 2
envoy_istiocustom_istio_request_duration_milliseconds_sum{fields="1s 200  -  outbound|80|v1|a.b.svc a;b;a;latest;;;"} 3.5
envoy_istiocustom_istio_request_duration_milliseconds_count{fields="1s 200  -  outbound|80|v1|a.b.svc a;b;a;latest;;;"} 2
envoy_istiocustom_istio_request_duration_milliseconds_bucket{fields="1s 200  -  outbound|80||a.b.svc a;b;a;latest;;;",le="0.5"} 0
envoy_istiocustom_istio_request_duration_milliseconds_bucket{fields="1s 200  -  outbound|80||a.b.svc a;b;a;latest;;;",le="+Inf"} 1
envoy_istiocustom_istio_request_duration_milliseconds_sum{fields="1s 200  -  outbound|80||a.b.svc a;b;a;latest;;;"} 9
envoy_istiocustom_istio_request_duration_milliseconds_count{fields="1s 200  -  outbound|80||a.b.svc a;b;a;latest;;;"} 1
# TYPE envoy_istiocustom_istio_response_bytes histogram
envoy_istiocustom_istio_response_bytes_count{fields="1d 200 0 - spiffe://td/ns/web/sa/p outbound_.80_._.reviews.shop.svc.cluster.local p-v1;web;p;v1;"} 1
envoy_istiocustom_istio_response_bytes_count{fields="1d 200 0 - spiffe://td/ns/web/sa/p outbound_.80_._.reviews.shop.svc.cluster.local admin;kube-system;p;v1;"} 1
envoy_istiocustom_istio_response_bytes_count{fields="1d 0  DC  a\"b\\c -"} 1
envoy_istiocustom_istio_response_bytes_count{fields="2x"} 1
envoy_istiocustom_istio_response_bytes_count{other="2x"} 1
# TYPE envoy_server_uptime gauge
envoy_server_uptime{} 5
`

func TestGolden(t *testing.T) {
	got, dropped := rewritten(t, exposition)
	require.Equal(t, 2, dropped)
	golden.File(t, "testdata/sidecar.prom", got)
}

// TestWithoutStatisticsOfOursNothingChanges also holds for an Envoy of Istio's, whose metrics have
// their names already.
func TestWithoutStatisticsOfOursNothingChanges(t *testing.T) {
	const text = "# TYPE envoy_a counter\nenvoy_a{} 1\n# TYPE istio_requests_total counter\nistio_requests_total{a=\"b\"} 1\n"
	got, dropped := rewritten(t, text)
	require.Equal(t, text, got)
	require.Zero(t, dropped)
}

func TestSeriesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("# TYPE envoy_istiocustom_istio_tcp_connections_opened_total counter\n")
	for n := range maxSeries + 10 {
		fmt.Fprintf(&b, "envoy_istiocustom_istio_tcp_connections_opened_total{fields=\"1s F%d  c w;n;;;\"} 1\n", n)
	}
	got, dropped := rewritten(t, b.String())
	require.Equal(t, 10, dropped)
	require.Equal(t, maxSeries+1, strings.Count(got, "\n"))
}

func FuzzWriter(f *testing.F) {
	f.Add(exposition)
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := rewritten(t, text)
		whole, _ := rewritten(t, got)
		require.Equal(t, strings.Count(got, "\n"), strings.Count(whole, "\n"), "what is rewritten stays as it is")
	})
}
