package meshstats

import (
	"fmt"
	"io"
	"os"
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

// exposition returns what Envoy writes for a sidecar.
func exposition(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/sidecar.envoy")
	require.NoError(t, err)
	return string(text)
}

func TestGolden(t *testing.T) {
	got, dropped := rewritten(t, exposition(t))
	require.Equal(t, 2, dropped)
	golden.File(t, "testdata/sidecar.prom", got)
}

// TestWithoutStatisticsOfOursNothingChanges also holds for an Envoy of Istio's, whose metrics have
// their names already.
func TestWithoutStatisticsOfOursNothingChanges(t *testing.T) {
	const text = "# TYPE envoy_a counter\nenvoy_a{} 1\n" +
		"# TYPE istio_requests_total counter\nistio_requests_total{a=\"b\"} 1\n"
	got, dropped := rewritten(t, text)
	require.Equal(t, text, got)
	require.Zero(t, dropped)
}

func TestLabelsOfTelemetries(t *testing.T) {
	const tags = `reporter="source",destination_service="reviews.shop.svc"`
	without := "1s"
	for _, l := range []string{
		"source_workload", "source_workload_namespace", "source_principal", "source_app", "source_version",
		"source_canonical_service", "source_canonical_revision", "source_cluster",
		"destination_workload", "destination_workload_namespace", "destination_principal", "destination_app",
		"destination_version", "destination_canonical_service", "destination_canonical_revision",
		"destination_cluster", "destination_service_name", "destination_service_namespace", "request_protocol",
		"response_code", "grpc_response_status", "response_flags", "connection_security_policy",
	} {
		without += ",-" + l
	}
	fields := func(head, code string) string {
		return fmt.Sprintf("fields=%q", head+" "+code+"  -  outbound|80||reviews.shop.svc w;n;;;")
	}
	durations := func(tags string, n int) string {
		const name = "envoy_istiocustom_istio_request_duration_milliseconds"
		const lines = "%s_bucket{%s,le=\"5\"} %d\n%[1]s_sum{%[2]s} %[3]d\n%[1]s_count{%[2]s} %[3]d\n"
		return fmt.Sprintf(lines, name, tags, n)
	}
	responses := func(head, messages string, n int) string {
		const name = "envoy_istiocustom_istio_response_messages_total"
		return fmt.Sprintf("%s{%s,messages=%q} %d\n", name, fields(head, "-"), messages, n)
	}
	const counter, histogram = "# TYPE envoy_istiocustom_istio_requests_total counter\n",
		"# TYPE envoy_istiocustom_istio_request_duration_milliseconds histogram\n"
	for name, c := range map[string]struct{ of, want string }{
		"labels that are removed make one series": {
			histogram + durations(fields(without, "-"), 1) + durations(fields(without+",-x", "-"), 2),
			"# TYPE istio_requests_total counter\nistio_requests_total{" + tags + "} 3\n" +
				"# TYPE istio_request_duration_milliseconds histogram\n" +
				"istio_request_duration_milliseconds_bucket{" + tags + ",le=\"5\"} 3\n" +
				"istio_request_duration_milliseconds_sum{" + tags + "} 3\n" +
				"istio_request_duration_milliseconds_count{" + tags + "} 3\n",
		},
		"labels that are set replace Istio's": {
			counter + "envoy_istiocustom_istio_requests_total{" + fields(without, "-") +
				`,destination_service="a\"} b",empty="",host="x"` + "} 7\n",
			"# TYPE istio_requests_total counter\n" +
				`istio_requests_total{reporter="source",destination_service="a\"} b",empty="unknown",` +
				`host="x"} 7` + "\n",
		},
		"requests that are counted on their own": {
			counter + "envoy_istiocustom_istio_requests_total{" + fields(without, "-") + "} 7\n" +
				histogram + durations(fields(without+",u", "-"), 2) + durations(fields(without, "-"), 1),
			"# TYPE istio_requests_total counter\nistio_requests_total{" + tags + "} 8\n" +
				"# TYPE istio_request_duration_milliseconds histogram\n" +
				"istio_request_duration_milliseconds_bucket{" + tags + ",le=\"5\"} 3\n" +
				"istio_request_duration_milliseconds_sum{" + tags + "} 3\n" +
				"istio_request_duration_milliseconds_count{" + tags + "} 3\n",
		},
		"messages of gRPC": {
			"# TYPE envoy_istiocustom_istio_response_messages_total counter\n" +
				responses(without, "1,20", 3) + responses(without, "7,2", 1) + responses(without, "", 9),
			"# TYPE istio_response_messages_total counter\nistio_response_messages_total{" + tags + "} 62\n",
		},
		"durations alone": {
			histogram + durations(fields(without+",u", "-"), 2),
			"# TYPE istio_request_duration_milliseconds histogram\n" +
				"istio_request_duration_milliseconds_bucket{" + tags + ",le=\"5\"} 2\n" +
				"istio_request_duration_milliseconds_sum{" + tags + "} 2\n" +
				"istio_request_duration_milliseconds_count{" + tags + "} 2\n",
		},
	} {
		got, dropped := rewritten(t, c.of)
		require.Zero(t, dropped, name)
		require.Equal(t, c.want, got, name)
	}
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
	f.Add(exposition(f))
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := rewritten(t, text)
		whole, _ := rewritten(t, got)
		require.Equal(t, strings.Count(got, "\n"), strings.Count(whole, "\n"), "what is rewritten stays as it is")
	})
}
