package incluster

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// forwardingKubelet forwards ports of Pods to addresses of this machine, which address tells of
// "namespace/pod:port". It returns the port that it serves.
func forwardingKubelet(t *testing.T, address func(port string) string) int32 {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 16)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r,
			func(s httpstream.Stream, _ <-chan struct{}) error { streams <- s; return nil })
		if connection == nil {
			return
		}
		defer func() { _ = connection.Close() }()
		byType := map[string]httpstream.Stream{}
		for len(byType) < 2 {
			select {
			case s := <-streams:
				byType[s.Headers().Get(corev1.StreamType)] = s
			case <-connection.CloseChan():
				return
			}
		}
		data, failed := byType[corev1.StreamTypeData], byType[corev1.StreamTypeError]
		port := r.PathValue("namespace") + "/" + r.PathValue("pod") + ":" + data.Headers().Get(corev1.PortHeader)
		if err := pipe(data, address(port)); err != nil {
			_, _ = fmt.Fprintf(failed, "%s: %v", port, err)
		}
		_ = failed.Close()
		_ = data.Close()
		<-connection.CloseChan()
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.CloseClientConnections)
	return int32(netip.MustParseAddrPort(server.Listener.Addr().String()).Port())
}

// pipe connects a stream with an address until both are done.
func pipe(data httpstream.Stream, address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var there sync.WaitGroup
	there.Go(func() {
		_, _ = io.Copy(conn, data)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(data, conn)
	return data.Close()
}

// node makes a node whose kubelet has a port.
func (c *cluster) node(t *testing.T, kubelet int32) {
	t.Helper()
	c.api.Node(t, "node-1", nil)
	_, err := c.client.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType, fmt.Appendf(nil,
		`{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
		"daemonEndpoints": {"kubeletEndpoint": {"Port": %d}}}}`, kubelet), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// tool runs the binary as an operator does, and returns what it prints and its exit code.
func (c *cluster) tool(t *testing.T, args ...string) (string, int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.lateen, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.api.Kubeconfig(), "HOME="+t.TempDir())
	out, _ := command.CombinedOutput()
	return string(out), command.ProcessState.ExitCode()
}

// TestToolsFindTheControlPlane: with a kubeconfig and without an address lateen finds all replicas
// by their labels, and asks them through the API server and the kubelet.
func TestToolsFindTheControlPlane(t *testing.T) {
	c := newCluster(t)
	c.scheduled(t)
	out, code := c.tool(t, "status", "--namespace", root)
	require.Equal(t, 1, code)
	require.Contains(t, out, "no Pod of Lateen runs in namespace istio-system")

	first, second := c.start(t), c.start(t)
	first.ready(t)
	second.ready(t)
	admin := c.envoy(t, second)
	labels := map[string]string{
		"app": "istiod", "app.kubernetes.io/name": "lateen", "istio.io/rev": "default",
		"sidecar.istio.io/inject": "false",
	}
	at := func(port int64) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	ports := map[string]string{
		root + "/istiod-a:15014": at(first.port(t, "monitoring")),
		root + "/istiod-b:15014": at(second.port(t, "monitoring")),
		"default/web-0:15000":    admin,
	}
	c.node(t, forwardingKubelet(t, func(port string) string { return ports[port] }))
	for name, address := range map[string]string{"istiod-a": "10.9.1.1", "istiod-b": "10.9.1.2"} {
		c.api.RunPod(t, podOn("node-1", root, name, "discovery", labels), address)
	}
	c.api.RunPod(t, podOn("node-1", root, "istiod-istios", "discovery", map[string]string{
		"app": "istiod", "sidecar.istio.io/inject": "false",
	}), "10.9.1.3")
	c.api.RunPod(t, podOn("node-1", "default", "web-0", "istio-proxy", map[string]string{"app": "web"}), "10.9.0.2")

	eventually(t, func(ct require.TestingT) {
		out, code := c.tool(t, "status", "--namespace", root)
		require.Equal(ct, 0, code, out)
		require.Regexp(ct, `web-0\.default .*SYNCED.* istiod-b\n`, out)
	})
	out, code = c.tool(t, "version", "--namespace", root)
	require.Equal(t, 0, code, out)
	for _, text := range []string{"control plane istiod-a: ", "control plane istiod-b: ", "proxies: 1.32.0 (1 proxy)"} {
		require.Contains(t, out, text)
	}
	require.NotContains(t, out, "istiod-istios", "it is no Pod of Lateen")
	out, code = c.tool(t, "status", "--revision", "canary")
	require.Equal(t, 1, code)
	require.Contains(t, out, "with revision canary")

	// A replica that comes anew sends nothing to an Envoy that has all: that is in sync too.
	second.stop()
	third := c.start(t, "--xds-address="+at(second.port(t, "xds")),
		"--monitoring-address="+at(second.port(t, "monitoring")))
	third.ready(t)
	eventually(t, func(ct require.TestingT) {
		out, code := c.tool(t, "status", "--namespace", root)
		require.Equal(ct, 0, code, out)
		require.Regexp(ct, `web-0\.default +sidecar +\S+ +SYNCED .* istiod-b\n`, out)
	})

	out, code = c.tool(t, "describe", "--namespace", root, "pod", "web-0.default")
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "mutual TLS: PERMISSIVE")
	require.Contains(t, out, "proxy: connected to istiod-b")
	out, code = c.tool(t, "describe", "service", "kubernetes", "--namespace", root)
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "port: 443 https")
	_, code = c.tool(t, "describe", "service", "nobody", "--namespace", root)
	require.Equal(t, 1, code)
	c.isAnalyzed(t)
	for args, says := range map[string]string{
		"web-0.default clusters":        "PassthroughCluster",
		"cluster web-0.default --live":  "xds-grpc",
		"web-0 bootstrap":               "sidecar~10.9.0.2~web-0.default~default.svc.cluster.local",
		"listeners web-0.default":       "MATCH",
		"all web-0.default -o json":     `"clusters": [`,
		"secrets web-0.default":         "SERIAL",
		"routes web-0.default --port 1": "OWNER",
	} {
		out, code = c.tool(t, append([]string{"proxy-config", "--namespace", root}, strings.Fields(args)...)...)
		require.Equal(t, 0, code, out)
		require.Contains(t, out, says, args)
	}
}

// isAnalyzed: what is installed is without fault, and of what is not, each kind of mistake has an
// exit code.
func (c *cluster) isAnalyzed(t *testing.T) {
	out, code := c.tool(t, "analyze", "cluster")
	require.Equal(t, 0, code, out)
	require.Equal(t, "0 errors, 0 warnings\n", out)
	c.apply(t, `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: unserved, namespace: default}
spec:
  selector: {app: nobody}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]
`)
	out, code = c.tool(t, "analyze", "cluster")
	require.Equal(t, 3, code, out)
	require.Contains(t, out, `warning: Gateway default/unserved: spec.selector = "app=nobody": selects no Pod`)
	c.apply(t, subsetRoute)
	out, code = c.tool(t, "analyze", "cluster", "-o", "json")
	require.Equal(t, 4, code, out)
	require.Contains(t, out, `"path": "spec.http[0].route[0].destination.subset"`)
}
