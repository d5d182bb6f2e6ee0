package features

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestSidecarListensForCallsToItsHosts: each listener of a Sidecar's egress leads to its own hosts
// and to no others, at a port, at an address or by a Unix socket, by requests or by bytes.
func TestSidecarListensForCallsToItsHosts(t *testing.T) {
	const bind = "127.99.7.33"
	dir, err := os.MkdirTemp("", "calls") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "calls.sock")
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "near"), livemesh.NewEcho("far", "far").In("other"),
		livemesh.Service("web", "http:9080:8080", "tcp:9000:8080", "http-admin:9090:8080"),
		livemesh.Service("other/far", "http:9080:8080", "tcp:9000:8080", "http-admin:9090:8080"),
	))
	at := netip.AddrPortFrom(m.Pod("client-v1").Outbound, 9080).String()
	m.Run("each has its hosts", livemesh.File("sidecar.yaml", livemesh.Object("Sidecar client", fmt.Sprintf(`
workloadSelector: {labels: {app: client}}
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
egress:
- port: {number: 9080, protocol: HTTP, name: http}
  hosts: [other/*]
- port: {number: 9000, protocol: TCP, name: tcp}
  bind: %[1]s
  hosts: [other/*]
- port: {number: 3128, protocol: HTTP_PROXY, name: proxy}
  bind: %[1]s
  hosts: [other/*]
- port: {number: 0, protocol: HTTP, name: socket}
  bind: unix://%[2]s
  hosts: [./*]
- hosts: [./*]
`, bind, socket))), func(t *testing.T, m *livemesh.Mesh) {
		require.Empty(t, m.ProblemsWith("Sidecar default/client"))
		for _, c := range []struct{ network, address, host, want string }{
			{"tcp", at, "far.other", "far"},
			{"tcp", at, "far.other:9080", "far"},
			{"tcp", at, "web.default", "502"},
			{"tcp", bind + ":3128", "far.other:9080", "far"},
			{"tcp", bind + ":3128", "far.other:9090", "far"},
			{"tcp", bind + ":3128", "web.default:9080", "502"},
			{"tcp", bind + ":9000", "anything", "far"},
			{"unix", socket, "web:9080", "near"},
			{"unix", socket, "far.other:9080", "502"},
		} {
			require.Equal(t, c.want, versionAt(t, c.network, c.address, c.host), "%s at %s", c.host, c.address)
		}
		client := m.Client("client-v1")
		requireVersion(t, "near", client.Get("http://web:9090/"))
		requireStatus(t, 502, client.Get("http://far.other:9090/"))
		_, err := net.Dial("tcp", netip.AddrPortFrom(m.Pod("client-v1").Outbound, 9000).String())
		require.Error(t, err, "the listener of bytes is at its own address")
	})
	m.Run("one with a mistake is closed", livemesh.File("sidecar.yaml", livemesh.Object("Sidecar client", `
workloadSelector: {labels: {app: client}}
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
egress:
- port: {number: 9000, protocol: TCP, name: tcp}
  bind: nowhere
  hosts: [other/*]
- hosts: ["*/*"]
`)), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("Sidecar default/client", "spec.egress[0].bind", "nowhere")
		requireVersion(t, "far", m.Client("client-v1").Get("http://far.other:9080/"))
		_, err := net.Dial("tcp", netip.AddrPortFrom(m.Pod("client-v1").Outbound, 9000).String())
		require.Error(t, err)
	})
	m.Run("gone again", "", func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "far", m.Client("client-v1").Get("http://far.other:9080/"))
		_, err := net.Dial("tcp", at)
		require.Error(t, err)
	})
}

// versionAt asks for a host at an address. It returns the version of the sample server that
// answered, or else the status.
func versionAt(t *testing.T, network, address, host string) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://" + host + "/")
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	return resp.Header.Get("x-sample-version")
}
