package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/realprometheus"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// released is a Deployment of the echo server whose version changes.
const released = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: podinfo}
spec:
  selector: {matchLabels: {app: podinfo}}
  template:
    metadata: {labels: {app: podinfo}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: app
        image: lateen/sample
        args: ["--version=%s", "--port=8080"]
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /health, port: 8080}}
`

// canary has Flagger move a fifth of the requests each ten seconds, which is its least interval.
const canary = `
apiVersion: flagger.app/v1beta1
kind: Canary
metadata: {name: podinfo}
spec:
  provider: istio
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: podinfo}
  progressDeadlineSeconds: 120
  service: {port: 80, targetPort: 8080, portDiscovery: true}
  analysis:
    interval: 10s
    threshold: 3
    stepWeight: 20
    maxWeight: 40
    metrics:
    - {name: request-success-rate, thresholdRange: {min: 99}, interval: 10s}
    - {name: request-duration, thresholdRange: {max: 5000}, interval: 10s}
`

// TestFlaggerPromotesByTraffic: Flagger's controller, unchanged, asks a Prometheus that scrapes the
// proxies how requests to a new version fare, and moves more of them to it until all go there. A
// version that fails is taken back.
func TestFlaggerPromotesByTraffic(t *testing.T) {
	binary := tool.Path(t, "flagger", "estate")
	c := start(t)
	c.api.InstallCRDs(t, "../estate/flagger", "github.com/fluxcd/flagger", "artifacts", "flagger", "crd.yaml")
	c.apply(t, echo("client", "v1", 1), fmt.Sprintf(released, "v1"))
	c.ready(t, "client-v1", "podinfo")
	c.runFlagger(t, binary, c.scrapeAll(t))
	c.apply(t, canary)
	c.hasPhase(t, "Initialized")

	const url = "http://podinfo/"
	w := c.from(t, "app=client")
	w.until(t, url, "v1", again(20, w, url, version("v1")))
	requests := w.steady(t, url, 30*time.Second)
	c.apply(t, fmt.Sprintf(released, "v2"))
	w.until(t, url, "the new version sometimes", version("v2"))
	w.until(t, url, "the old version mostly", version("v1"))
	c.hasPhase(t, "Succeeded")
	w.until(t, url, "v2 alone", again(50, w, url, version("v2")))
	requests.end()

	failing := w.steady(t, url+"status/500", 30*time.Second)
	c.apply(t, fmt.Sprintf(released, "v3"))
	w.until(t, url, "the failing version sometimes", version("v3"))
	c.hasPhase(t, "Failed")
	failing.end()
	w.until(t, url, "v2 alone", again(50, w, url, version("v2")))
}

// runFlagger runs Flagger's controller until the test ends.
func (c *cluster) runFlagger(t *testing.T, binary string, metrics *realprometheus.Server) {
	t.Helper()
	held, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(held.Release)
	command := exec.CommandContext(t.Context(), binary, "-kubeconfig", c.api.KubeconfigOfRelease(t),
		"-mesh-provider", "istio", "-metrics-server", "http://"+metrics.Address, "-log-level", "info",
		"-namespace", c.namespace, "-port", fmt.Sprint(netip.MustParseAddrPort(held.Address).Port()))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stdout, command.Stderr = c.logs, c.logs
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Wait() })
}

// hasPhase waits until Flagger says so of its Canary.
func (c *cluster) hasPhase(t *testing.T, phase string) {
	t.Helper()
	canaries := c.dynamic.Resource(schema.GroupVersionResource{
		Group: "flagger.app", Version: "v1beta1", Resource: "canaries",
	}).Namespace(c.namespace)
	c.await(t, "phase "+phase, func() bool {
		o, err := canaries.Get(t.Context(), "podinfo", metav1.GetOptions{})
		require.NoError(t, err)
		now, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return now == phase
	})
}

// scrapeAll starts a Prometheus that scrapes the agents of all ready Pods, as they come and go.
func (c *cluster) scrapeAll(t *testing.T) *realprometheus.Server {
	t.Helper()
	way := httptest.NewServer(&httputil.ReverseProxy{ // Pods are in a network of their own
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host },
		Transport: &http.Transport{DialContext: c.network.Dial},
		ErrorLog:  log.New(io.Discard, "", 0), // Pods go
	})
	t.Cleanup(way.Close)
	discovery := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		pods, err := c.client.CoreV1().Pods(c.namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		group := struct {
			Targets []string `json:"targets"`
		}{[]string{}}
		for i := range pods.Items {
			if readiness(&pods.Items[i]) == "True" {
				group.Targets = append(group.Targets, net.JoinHostPort(pods.Items[i].Status.PodIP, "15020"))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode([]any{group})
	}))
	t.Cleanup(discovery.Close)
	return realprometheus.Start(t, fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs:
- job_name: agents
  metrics_path: /stats/prometheus
  proxy_url: %q
  http_sd_configs: [{url: %q, refresh_interval: 1s}]
`, way.URL, discovery.URL))
}
