package features

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// withTopology is a mesh configuration that says what stands in front of gateways.
func withTopology(topology string) string {
	return livemesh.File("mesh.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    defaultConfig: {gatewayTopology: `+topology+`}
`)
}

// TestGatewaysBelieveTheProxiesInFront is gatewayTopology: of a gateway without it, of the mesh's,
// and of a gateway's own, which comes before the mesh's. A Gateway of the Gateway API goes by it
// too.
func TestGatewaysBelieveTheProxiesInFront(t *testing.T) {
	const templates, config = "inject.istio.io/templates: gateway",
		`proxy.istio.io/config: "gatewayTopology: {numTrustedProxies: 2, forwardClientCertDetails: SANITIZE}"`
	own := strings.Replace(livemesh.GatewayPod(8080), templates, templates+", "+config, 1)
	own = strings.ReplaceAll(own, "name: istio-ingress", "name: own-ingress")
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080, 8081), own, livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		baseRoute(), livemesh.Object(kubernetesGateway+" api", `
gatewayClassName: istio
addresses: [{type: Hostname, value: istio-ingress}]
listeners: [{name: http, port: 8081, protocol: HTTP}]
`)+livemesh.Object("HTTPRoute api", `
parentRefs: [{name: api}]
hostnames: [base.test]
rules: [{backendRefs: [{name: web, port: 80}]}]
`),
	))
	at := func(gateway string, port uint16) string {
		answer := m.Gateway(gateway, port).Get("/", livemesh.Host("base.test"),
			livemesh.Header("x-forwarded-for", "203.0.113.1, 203.0.113.2"))
		requireStatus(t, 200, answer)
		return answer.Echoed.Headers.Get("x-envoy-external-address")
	}
	client := func(gateway string) string { return at(gateway, 8080) }
	require.NotContains(t, client("istio-ingress"), "203.0.113", "nobody is believed")
	require.Equal(t, "203.0.113.1", client("own-ingress"))

	m.Run("the mesh's", withTopology("{numTrustedProxies: 1}"), func(t *testing.T, _ *livemesh.Mesh) {
		require.Equal(t, "203.0.113.2", client("istio-ingress"))
		require.Equal(t, "203.0.113.2", at("istio-ingress", 8081), "of the Gateway API")
		require.Equal(t, "203.0.113.1", client("own-ingress"), "a gateway's own comes first")
	})
	m.Run("the PROXY protocol", withTopology("{proxyProtocol: {}}"), func(t *testing.T, m *livemesh.Mesh) {
		with := func(first string) (*http.Response, error) {
			conn := m.DialPod("istio-ingress", 8080)
			_, _ = fmt.Fprintf(conn, "%sGET / HTTP/1.1\r\nHost: base.test\r\nConnection: close\r\n\r\n", first)
			return http.ReadResponse(bufio.NewReader(conn), nil)
		}
		answer, err := with("PROXY TCP4 203.0.113.7 127.0.0.1 4321 8080\r\n")
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Contains(t, string(body), "203.0.113.7")
		answer, err = with("")
		if err == nil {
			_ = answer.Body.Close()
		}
		require.Error(t, err, "a connection that does not say whose it is")
	})
}
