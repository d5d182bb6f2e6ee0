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
