package features

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestGatewayListensWhereItsServersSay: servers with an address of their own, or a Unix socket,
// have a listener and routes of their own beside those at all addresses.
func TestGatewayListensWhereItsServersSay(t *testing.T) {
	const bind = "127.99.7.32"
	dir, err := os.MkdirTemp("", "bind") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "gateway.sock")
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("own", "v2"), livemesh.Service("own", "http:80:8080"),
		livemesh.NewEcho("socket", "v3"), livemesh.Service("socket", "http:80:8080"),
		baseRoute(),
		livemesh.Object("Gateway own", fmt.Sprintf(`
selector: {istio: ingress}
servers:
- {port: {number: 8080, name: http, protocol: HTTP}, hosts: [base.test], bind: %s}
`, bind)), livemesh.Object("VirtualService own", `
hosts: [base.test]
gateways: [own]
http:
- route: [{destination: {host: own}}]
`), livemesh.Object("Gateway socket", fmt.Sprintf(`
selector: {istio: ingress}
servers:
- {port: {number: 0, name: http, protocol: HTTP}, hosts: [base.test], bind: "unix://%s"}
`, socket)), livemesh.Object("VirtualService socket", `
hosts: [base.test]
gateways: [socket]
http:
- route: [{destination: {host: socket}}]
`),
	))
	m.RequireNoProblems()
	requireVersion(t, "v1", m.Gateway("istio-ingress", 8080).Get("/", livemesh.Host("base.test")))
	get := func(network, address string) string {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get("http://base.test/")
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Header.Get("x-sample-version")
	}
	require.Equal(t, "v2", get("tcp", bind+":8080"))
	require.Equal(t, "v3", get("unix", socket))
}
