package incluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/realprometheus"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// canaries and deployments are what Flagger's phases and versions stand in.
var (
	canaries    = schema.GroupVersionResource{Group: "flagger.app", Version: "v1beta1", Resource: "canaries"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// canaried is a Deployment with its Canary. Flagger looks at it each 10 s, which is the least.
const canaried = `apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: "example.com/app:%[3]s"}]}
---
apiVersion: flagger.app/v1beta1
kind: Canary
metadata: {name: %[1]s}
spec:
  provider: istio
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  progressDeadlineSeconds: 120
  service: {port: 9898, portDiscovery: true, %[2]s}
  analysis:
    {interval: 10s, threshold: 1, %[4]s, metrics: [
      {name: request-success-rate, thresholdRange: {min: 99}, interval: 10s},
      {name: request-duration, thresholdRange: {max: 500}, interval: 10s}]}
`

// delegating leads requests to the VirtualService that Flagger writes, which has no hosts.
const delegating = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: istio-ingressgateway, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: root}
spec:
  hosts: [shop.example.com]
  gateways: [istio-system/istio-ingressgateway]
  http:
  - match: [{uri: {prefix: /delegated}}]
    rewrite: {uri: /}
    delegate: {name: delegated, namespace: test}
`

// TestFlaggerMovesWeights: Flagger's controller, unchanged, promotes a version by steps: also one
// behind the delegate of a gateway's VirtualService, one that insiders get alone, and one whose
// callers stay with it. It takes back one that fails.
func TestFlaggerMovesWeights(t *testing.T) {
	binary := tool.Path(t, "flagger", "estate")
	e := newEstate(t)
	e.api.InstallCRDs(t, "../estate/flagger", "github.com/fluxcd/flagger", "artifacts", "flagger", "crd.yaml")
	gateway := e.gateway(t)
	metrics := startIstioMetrics(t, "podinfo", "delegated", "failing", "compared", "sticky")
	e.runFlagger(t, binary, metrics.prometheus)

	const steps = "stepWeight: 20, maxWeight: 40"
	released := map[string]release{
		"podinfo":   {`headers: {request: {add: {x-envoy-max-retries: "10"}}}, retries: {attempts: 3}`, steps},
		"delegated": {`delegation: true`, steps},
		"failing":   {`trafficPolicy: {tls: {mode: DISABLE}}`, steps},
		"compared":  {`timeout: 5s`, `iterations: 6, match: [{headers: {x-canary: {exact: insider}}}]`},
		"sticky":    {`timeout: 5s`, steps + `, sessionAffinity: {cookieName: flagger-cookie}`},
	}
	e.applyAll(t, delegating)
	e.release(t, released, "v1")
	for name := range released {
		e.hasPhase(t, name, "Initialized")
	}
	at := func(name string) string { return name + "." + tested + ".svc.cluster.local:9898" }
	histories := map[string]*history{"delegated": follow(t, gateway, "shop.example.com")}
	for _, name := range []string{"podinfo", "failing", "compared", "sticky"} {
		histories[name] = follow(t, e.sidecar, at(name))
	}
	for _, name := range []string{"podinfo", "failing", "delegated"} {
		histories[name].saw(t, name+"-primary 100")
	}
	e.areAccepted(t, kinds.VirtualService, kinds.DestinationRule)

	metrics.fail("failing")
	e.release(t, released, "v2")
	histories["podinfo"].saw(t, "podinfo-primary 80, podinfo-canary 20")
	e.areAccepted(t, kinds.VirtualService, kinds.DestinationRule)
	e.hasPhase(t, "failing", "Failed")
	for _, name := range []string{"podinfo", "delegated", "compared", "sticky"} {
		e.hasPhase(t, name, "Succeeded")
	}
	for _, name := range []string{"podinfo", "delegated"} {
		histories[name].saw(t, name+"-primary 100", name+"-primary 80, "+name+"-canary 20",
			name+"-primary 60, "+name+"-canary 40", name+"-primary 100")
	}
	histories["failing"].saw(t, "failing-primary 100", "failing-primary 80, failing-canary 20", "failing-primary 100")
	histories["compared"].saw(t, "compared-primary 100; compared-primary 100",
		"compared-canary 100; compared-primary 100", "compared-primary 100; compared-primary 100")
	histories["sticky"].saw(t, "sticky-canary 100; sticky-primary 80, sticky-canary 20",
		"sticky-canary 100; sticky-primary 60, sticky-canary 40")
	e.areAccepted(t, kinds.VirtualService, kinds.DestinationRule)
	for name := range released {
		version := "v2"
		if name == "failing" {
			version = "v1"
		}
		containers := e.textOf(t, deployments, name+"-primary", "spec", "template", "spec", "containers")
		require.Contains(t, containers, "example.com/app:"+version, name)
	}
}

// release is what a Canary says of its Service and of its analysis.
type release struct{ service, analysis string }

// release applies a version of each Deployment with its Canary.
func (e *estate) release(t *testing.T, all map[string]release, version string) {
	t.Helper()
	for name, r := range all {
		e.applyAll(t, fmt.Sprintf(canaried, name, r.service, version, r.analysis))
	}
}

// runFlagger runs Flagger's controller with what its chart says for Istio.
func (e *estate) runFlagger(t *testing.T, binary, prometheus string) {
	t.Helper()
	held, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(held.Release)
	own := netip.MustParseAddrPort(held.Address).Port()
	runProgram(t, binary, "-kubeconfig", e.api.KubeconfigOfRelease(t), "-mesh-provider", "istio", "-metrics-server",
		prometheus, "-port", fmt.Sprint(own), "-log-level", "info", "-namespace", tested)
}

func (e *estate) hasPhase(t *testing.T, canary, phase string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		require.Equal(ct, phase, e.textOf(ct, canaries, canary, "status", "phase"), canary)
	})
}

// istioMetrics is a Prometheus with Istio's metrics of workloads in the tested namespace, each of
// which has answered ten requests more whenever it is asked.
type istioMetrics struct {
	prometheus string // its URL

	mu      sync.Mutex
	counted map[string]map[string]int // by workload and by code of the answer
	code    map[string]string         // what a workload answers with
}

func startIstioMetrics(t *testing.T, workloads ...string) *istioMetrics {
	t.Helper()
	m := &istioMetrics{counted: map[string]map[string]int{}, code: map[string]string{}}
	for _, w := range workloads {
		m.counted[w], m.code[w] = map[string]int{}, "200"
	}
	proxies := httptest.NewServer(m)
	t.Cleanup(proxies.Close)
	server := realprometheus.Start(t, fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs: [{job_name: proxies, static_configs: [{targets: [%q]}]}]
`, strings.TrimPrefix(proxies.URL, "http://")))
	m.prometheus = "http://" + server.Address
	return m
}

// fail has a workload answer with 500 from now on.
func (m *istioMetrics) fail(workload string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.code[workload] = "500"
}

func (m *istioMetrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for workload, counted := range m.counted {
		counted[m.code[workload]] += 10
		for code, n := range counted {
			labels := fmt.Sprintf(`reporter="destination",destination_workload=%q,destination_workload_namespace=%q,`+
				`response_code=%q`, workload, tested, code)
			_, _ = fmt.Fprintf(w, "istio_requests_total{%s} %d\n", labels, n)
			for _, le := range []string{"50", "100", "+Inf"} {
				_, _ = fmt.Fprintf(w, "istio_request_duration_milliseconds_bucket{%s,le=%q} %d\n", labels, le, n)
			}
		}
	}
}
