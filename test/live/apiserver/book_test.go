package apiserver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheBooksPerformanceTest runs lateen perf control-plane as a user does: against a real API
// server and control plane, through a real gateway. A WorkloadEntry stands for the Pods of the
// book's catalog, which serve /items.
func TestTheBooksPerformanceTest(t *testing.T) {
	m := start(t)
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/items" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(catalog.Close)
	g := m.runGateway(m.lateen, "edge", "127.0.0.77")
	var entry networkingv1.WorkloadEntry
	read(t, &entry, "{metadata: {name: catalog}, spec: {address: 127.0.0.1, labels: {app: catalog}}}")
	_, err := m.istio.NetworkingV1().WorkloadEntries(namespace).Create(t.Context(), &entry, metav1.CreateOptions{})
	require.NoError(t, err)
	port := regexp.MustCompile(`\d+$`).FindString(catalog.URL)
	command := func(args ...string) *exec.Cmd {
		return exec.Command(commands, append([]string{
			"perf", "control-plane", "--kubeconfig", m.api.Kubeconfig(), "--monitoring-address", m.lateen.Monitoring,
			"--namespace", namespace, "--gateway", g.at(8080), "--gateway-port", "8080",
			"--gateway-selector", "app=edge-gateway", "--target-port", port, "--settle", "500ms",
		}, args...)...)
	}

	out, err := command("--reps", "3", "--delay", "0.1").CombinedOutput()
	require.NoError(t, err, "%s", out)
	found := regexp.MustCompile(`(?m)^Push count: (\d+)\nLatency in the last minute: 0\.\d{4} seconds$`).
		FindSubmatch(out)
	require.Len(t, found, 2, "%s", out)
	pushes, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	require.GreaterOrEqual(t, pushes, len(m.proxies), "each sidecar is told of the services at least once")
	require.Zero(t, m.left(t))

	interrupted := command("--reps", "1000", "--delay", "0.1")
	var said bytes.Buffer
	interrupted.Stderr = &said
	require.NoError(t, interrupted.Start())
	eventually(t, "objects are created", func() bool { return m.left(t) > 0 })
	require.NoError(t, interrupted.Process.Signal(os.Interrupt))
	require.Error(t, interrupted.Wait(), "an interrupted test has failed")
	require.Zero(t, m.left(t), "what was created is deleted: %s", &said)
}

// left is how many objects of the test are in the cluster.
func (m *mesh) left(t *testing.T) int {
	t.Helper()
	own := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=lateen-perf-control-plane"}
	services, err := m.core.CoreV1().Services(namespace).List(t.Context(), own)
	require.NoError(t, err)
	gateways, err := m.istio.NetworkingV1().Gateways(namespace).List(t.Context(), own)
	require.NoError(t, err)
	routes, err := m.istio.NetworkingV1().VirtualServices(namespace).List(t.Context(), own)
	require.NoError(t, err)
	return len(services.Items) + len(gateways.Items) + len(routes.Items)
}
