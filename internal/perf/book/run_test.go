package book

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

func resources() map[schema.GroupVersionResource]string {
	return map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "services"}:                                      "ServiceList",
		{Group: "networking.istio.io", Version: "v1", Resource: "gateways"}:        "GatewayList",
		{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}: "VirtualServiceList",
	}
}

// world is a fake cluster whose gateway answers, and whose control plane pushes thrice for each
// reading of its metrics but the last ones.
type world struct {
	client *fake.FakeDynamicClient
	reads  atomic.Int64
	asked  atomic.Value // the host that was asked for last
}

func newWorld(t *testing.T) (*world, Options) {
	t.Helper()
	w := &world{client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), resources())}
	gateway := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Store(r.Host + r.URL.Path)
		if r.URL.Path != "/items" {
			rw.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(gateway.Close)
	return w, Options{
		Client: w.client, Namespace: "istioinaction", Reps: 3, Gateway: gateway.URL, Path: "/items",
		GatewaySelector: map[string]string{"istio": "ingressgateway"}, GatewayPort: 80,
		Selector: map[string]string{"app": "catalog"}, TargetPort: 3000,
		Metrics: w.metrics, Patience: time.Minute, Settle: time.Millisecond,
	}
}

func (w *world) metrics(context.Context) (measure.Metrics, error) {
	n := 3 * min(w.reads.Add(1), 3)
	return measure.Parse(fmt.Appendf(nil, `# TYPE pilot_xds_pushes counter
pilot_xds_pushes{type="cds"} %[1]d
pilot_xds_pushes{type="eds"} %[1]d
# TYPE pilot_proxy_convergence_time histogram
pilot_proxy_convergence_time_bucket{le="0.1"} %[1]d
pilot_proxy_convergence_time_bucket{le="+Inf"} %[1]d
pilot_proxy_convergence_time_sum 1
pilot_proxy_convergence_time_count %[1]d
`, n))
}

// left is how many objects are in the cluster.
func (w *world) left(t *testing.T) (n int) {
	t.Helper()
	for r := range resources() {
		list, err := w.client.Resource(r).List(context.Background(), metav1.ListOptions{})
		require.NoError(t, err)
		n += len(list.Items)
	}
	return n
}

func TestPushesAreThoseSinceTheBeginning(t *testing.T) {
	w, o := newWorld(t)
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 12, r.PushCount, "two kinds of pushes, 3 at first and 9 in the end")
	require.True(t, r.Observed)
	require.InDelta(t, 0.099, r.Latency, 1e-9)
	require.Regexp(t, `^service-[0-9a-f]{6}-2\.istioinaction\.io/items$`, w.asked.Load(), "the last one is asked for")
	require.Zero(t, w.left(t), "all is deleted")
	creates := 0
	for _, a := range w.client.Actions() {
		if a.GetVerb() == "create" {
			creates++
		}
	}
	require.Equal(t, 9, creates)
}

func TestAnInterruptedTestCleansUp(t *testing.T) {
	w, o := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	o.Reps, o.Delay = 5, time.Hour
	w.client.PrependReactor("create", "virtualservices", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel() // the first of them is created, and then the delay begins
		return false, nil, nil
	})
	_, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, w.left(t), "all is deleted")
}

func TestAGatewayThatDoesNotAnswerIsTold(t *testing.T) {
	w, o := newWorld(t)
	o.Path, o.Patience = "/nothing", 10*time.Millisecond
	_, err := Run(t.Context(), o)
	require.ErrorContains(t, err, "does not answer at "+o.Gateway+"/nothing within 10ms: 404 Not Found; want a gateway")
	require.Zero(t, w.left(t), "all is deleted")
}

func TestPrometheusIsAskedTheBooksQuestion(t *testing.T) {
	answer := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.5,"0.0990"]}]}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/api/v1/query", r.URL.Path)
		require.Equal(t, latencyQuery, r.FormValue("query"))
		_, _ = fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	_, o := newWorld(t)
	o.Prometheus = Prometheus(server.Listener.Addr().String())
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.InDelta(t, 0.099, r.Latency, 1e-9)

	answer = `{"status":"success","data":{"result":[]}}`
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.False(t, r.Observed, "nothing was pushed in the last minute")

	answer = `{"status":"error","error":"parse error"}`
	_, err = Run(t.Context(), o)
	require.ErrorContains(t, err, "200 OK: the query failed: parse error")
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"result":[{"value":[1,"2"]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"result":[{"value":[]}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if v, err := valueOf(body); err != nil {
			require.True(t, v == 0 || math.IsInf(v, 0), "an error has no value")
		}
	})
}
