package observe

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
	"github.com/lateen-mesh/lateen/internal/testkit/realprometheus"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

func TestMain(m *testing.M) { leak.Main(m) }

const patience = time.Minute

// pod has an Envoy at an address of its own, where a local mesh would have it.
func pod(t *testing.T) local.PodStatus {
	t.Helper()
	at := netip.MustParseAddr("127.111.3.7")
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, local.AdminPort).String())
	require.NoError(t, err)
	envoy := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "# TYPE envoy_istiocustom_istio_tcp_connections_opened_total counter\n"+
				`envoy_istiocustom_istio_tcp_connections_opened_total{fields="1s -  outbound|1||a.b.svc a;b;a;v1;"} 3`+"\n")
		})}}
	envoy.Start()
	t.Cleanup(envoy.Close)
	return local.PodStatus{
		Namespace: "shop", Name: "reviews-v1-0", Outbound: at, Principal: "spiffe://cluster.local/ns/shop/sa/r",
		Peer: proxystats.Workload{Name: "reviews-v1", Namespace: "shop", App: "reviews"},
	}
}

const rules = `groups:
- name: a
  rules: [{record: opened, expr: istio_tcp_connections_opened_total}]
`

// TestPrometheusHasTheMetricsOfProxies also has it evaluate rules that lie in a relative directory,
// as the state directory of lateen up is, and sees Prometheus end with its context.
func TestPrometheusHasTheMetricsOfProxies(t *testing.T) {
	binary, err := filepath.Abs(tool.Path(t, "prometheus", "prometheus"))
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	reserved, err := port.Reserve()
	require.NoError(t, err)
	defer reserved.Release()
	proxy := pod(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Binary: binary, Dir: filepath.Join("state", "prometheus"), Listen: reserved.Address,
			ControlPlane: "127.0.0.1:1", Rules: []byte(rules),
			Pods: func() []local.PodStatus {
				return []local.PodStatus{proxy, {Name: "pending"}}
			}, Log: slog.New(slog.DiscardHandler),
		})
	}()
	server := realprometheus.At(t, reserved.Address)
	const query = `opened{job="proxies",instance="reviews-v1-0.shop",reporter="source",` +
		`source_workload="reviews-v1",destination_workload="a",destination_service_name="a"} == 3`
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := server.Query(ctx, query)
		require.NoError(t, err)
		if len(found) == 1 {
			break
		}
		require.True(t, time.Now().Before(deadline), "no data for %s", query)
		<-tick.C
	}
	cancel()
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
}

func TestAPrometheusThatEndsIsAnError(t *testing.T) {
	err := Run(t.Context(), Options{
		Binary: "/bin/false", Dir: t.TempDir(), Listen: "127.0.0.1:1", Log: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, "prometheus has ended")
	require.ErrorContains(t, err, "prometheus.log says why")
}

func TestMetricsOfAProxyThatIsGone(t *testing.T) {
	gone := local.PodStatus{Namespace: "a", Name: "b", Outbound: netip.MustParseAddr("127.111.3.8")}
	h := newProxies(func() []local.PodStatus { return []local.PodStatus{gone} }, slog.New(slog.DiscardHandler))
	for path, want := range map[string]int{
		"/proxies/a/b": http.StatusBadGateway, "/proxies/a/c": http.StatusNotFound, "/": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, want, w.Code, path)
	}
}
