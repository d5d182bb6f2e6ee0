package features

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestRoutesOfServicesAreForTheirCallers is the Gateway API in the mesh: routes with a Service as
// their parent.
func TestRoutesOfServicesAreForTheirCallers(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("client", "v1").In("other"),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080", "http-two:81:8080"),
		livemesh.NewEcho("next", "v2"), livemesh.Service("next", "http:80:8080"),
		livemesh.NewEcho("lines", "v1").HTTP().TCP(7000), livemesh.Service("lines", "tcp:9000:7000"),
		livemesh.NewEcho("words", "v2").HTTP().TCP(7000), livemesh.Service("words", "tcp:9001:7000"),
	))
	own, foreign := m.Client("client-v1"), m.Client("other/client-v1")
	const web = "http://web.default.svc.cluster.local"

	m.Run("producer", livemesh.File("producer.yaml", livemesh.Object("HTTPRoute producer", `
parentRefs: [{group: "", kind: Service, name: web, port: 80}]
rules:
- matches: [{path: {value: /next}}]
  backendRefs: [{name: next, port: 80}]
- matches: [{path: {value: /stay}}]
  backendRefs: [{name: web, port: 80}]
`)), func(t *testing.T, m *livemesh.Mesh) {
		for _, caller := range []*livemesh.Client{own, foreign} {
			requireVersion(t, "v2", caller.Get(web+"/next"))
			requireVersion(t, "v1", caller.Get(web+"/stay"))
			requireStatus(t, 404, caller.Get(web+"/nothing"))
			requireVersion(t, "v1", caller.Get(web+":81/nothing"))
		}
		m.Run("consumer", livemesh.File("consumer.yaml",
			livemesh.Object("HTTPRoute other/consumer", `
parentRefs: [{group: "", kind: Service, name: web, namespace: default}]
rules: [{backendRefs: [{name: web, namespace: default, port: 80}]}]
`)), func(t *testing.T, _ *livemesh.Mesh) {
			requireVersion(t, "v2", own.Get(web+"/next"))
			requireVersion(t, "v1", foreign.Get(web+"/next"))
			requireVersion(t, "v1", foreign.Get(web+"/nothing"))
		})
		m.Settle()
		requireVersion(t, "v2", foreign.Get(web+"/next"))
	})
	m.Run("gRPC", livemesh.File("grpc.yaml", livemesh.Object("GRPCRoute calls", `
parentRefs: [{group: "", kind: Service, name: web}]
rules:
- matches: [{method: {service: shop.Cart, method: Add}}]
  backendRefs: [{name: next, port: 80}]
- matches: [{method: {method: Get}}]
  backendRefs: [{name: web, port: 80}]
`)), func(t *testing.T, _ *livemesh.Mesh) {
		requireVersion(t, "v2", own.Get(web+"/shop.Cart/Add"))
		requireVersion(t, "v1", own.Get(web+"/shop.Cart/Get"))
		requireStatus(t, 404, own.Get(web+"/shop.Cart/Remove"))
	})
	m.Run("connections", livemesh.File("tcp.yaml", livemesh.Object("TCPRoute lines", `
parentRefs: [{group: "", kind: Service, name: lines}]
rules: [{backendRefs: [{name: words, port: 9001}]}]
`)), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		require.Contains(t, answerTo(t, m.Dial("client-v1", 9000)), "v2")
	})
}

// answerTo says something on a connection, and returns the answer.
func answerTo(t *testing.T, conn net.Conn) string {
	t.Helper()
	defer func() { _ = conn.Close() }()
	_, err := fmt.Fprintln(conn, "hello")
	require.NoError(t, err)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return answer
}

// TestGatewayAPILeadsConnectionsIntoTheMesh is TLSRoute and TCPRoute on a gateway.
func TestGatewayAPILeadsConnectionsIntoTheMesh(t *testing.T) {
	behind := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "behind")
	}))
	t.Cleanup(behind.Close)
	at := netip.MustParseAddrPort(strings.TrimPrefix(behind.URL, "https://"))
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8443, 9000),
		livemesh.NewEcho("lines", "v1").HTTP().TCP(7000), livemesh.Service("lines", "tcp:9000:7000"),
		livemesh.Object("ServiceEntry own", fmt.Sprintf(`
hosts: [own.outside.test]
ports: [{number: 443, name: tls, protocol: TLS}]
resolution: STATIC
endpoints: [{address: %s, ports: {tls: %d}}]
`, at.Addr(), at.Port())),
		livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: lateen
addresses: [{type: Hostname, value: istio-ingress}]
listeners:
- {name: names, port: 8443, protocol: TLS, hostname: "*.test", tls: {mode: Passthrough}}
- {name: bytes, port: 9000, protocol: TCP}
`),
		livemesh.Object("TLSRoute own", `
parentRefs: [{name: public, sectionName: names}]
hostnames: [own.test]
rules:
- backendRefs: [{group: networking.istio.io, kind: Hostname, name: own.outside.test, port: 443}]
`),
		livemesh.Object("TCPRoute bytes", `
parentRefs: [{name: public, sectionName: bytes}]
rules: [{backendRefs: [{name: lines, port: 9000}]}]
`),
	))
	m.RequireNoProblems()
	got, err := overTLS(m.DialPod("istio-ingress", 8443), "own.test")
	require.NoError(t, err)
	require.Equal(t, "behind", got)
	_, err = overTLS(m.DialPod("istio-ingress", 8443), "unrouted.test")
	require.Error(t, err)
	require.Contains(t, answerTo(t, m.DialPod("istio-ingress", 9000)), "v1")
}
