package features

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// withHeaders is a mesh configuration that says which headers proxies set.
func withHeaders(headers string) string {
	return livemesh.File("mesh.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    defaultConfig: {proxyHeaders: `+headers+`}
`)
}

// TestHeadersThatProxiesSet is proxyHeaders: what the application and the client see of each.
func TestHeadersThatProxiesSet(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("client", "v1"), baseRoute(),
		livemesh.Object("Gateway renamed", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [renamed.test]
`), livemesh.Object("VirtualService renamed", `
hosts: [renamed.test]
gateways: [renamed]
http:
- rewrite: {authority: other.test}
  route: [{destination: {host: web}}]
`),
	))
	inside := func() livemesh.Answer {
		answer := m.Client("client-v1").Get("http://web/")
		requireStatus(t, 200, answer)
		return answer
	}
	through := func() livemesh.Answer {
		answer := m.Gateway("istio-ingress", 8080).Get("/", livemesh.Host("base.test"))
		requireStatus(t, 200, answer)
		return answer
	}
	sets := func(a livemesh.Answer, header string) bool { return a.Echoed.Headers.Get(header) != "" }

	require.Equal(t, "istio-envoy", through().Header.Get("server"))
	for _, a := range []livemesh.Answer{inside(), through()} {
		require.True(t, sets(a, "x-request-id"))
		require.True(t, sets(a, "x-envoy-attempt-count"))
		require.False(t, sets(a, "x-forwarded-port"))
		require.NotEmpty(t, a.Header.Get("x-envoy-upstream-service-time"))
	}
	m.Run("a name of the server", withHeaders("{server: {value: ours}}"), func(t *testing.T, _ *livemesh.Mesh) {
		require.Equal(t, "ours", through().Header.Get("server"))
		require.Equal(t, "ours", inside().Header.Get("server"))
	})
	none := "{requestId: {disabled: true}, attemptCount: {disabled: true}, envoyDebugHeaders: {disabled: true}, " +
		"server: {disabled: true}}"
	m.Run("none", withHeaders(none), func(t *testing.T, _ *livemesh.Mesh) {
		for _, a := range []livemesh.Answer{inside(), through()} {
			require.False(t, sets(a, "x-request-id"))
			require.False(t, sets(a, "x-envoy-attempt-count"))
			require.Empty(t, a.Header.Get("x-envoy-upstream-service-time"))
			require.Empty(t, a.Header.Get("server"), "the application has none")
		}
		kept := m.Client("client-v1").Get("http://web/", livemesh.Header("x-request-id", "mine"))
		require.Equal(t, "mine", kept.Echoed.Headers.Get("x-request-id"))
	})
	own := strings.Replace(livemesh.NewEcho("own", "v1").String(), "metadata: {labels:",
		`metadata: {annotations: {proxy.istio.io/config: "proxyHeaders: {attemptCount: {disabled: true}}"}, labels:`, 1)
	m.Run("a Pod's own", livemesh.File("own.yaml", own), func(t *testing.T, m *livemesh.Mesh) {
		answer := m.Client("own-v1").Get("http://web/")
		requireStatus(t, 200, answer)
		require.False(t, sets(answer, "x-envoy-attempt-count"))
		require.True(t, sets(inside(), "x-envoy-attempt-count"))
	})
	m.Run("what was called", withHeaders("{xForwardedHost: {enabled: true}, xForwardedPort: {enabled: true}}"),
		func(t *testing.T, _ *livemesh.Mesh) {
			require.Equal(t, "8080", through().Echoed.Headers.Get("x-forwarded-port"))
			renamed := m.Gateway("istio-ingress", 8080).Get("/", livemesh.Host("renamed.test"))
			require.Equal(t, "renamed.test", renamed.Echoed.Headers.Get("x-forwarded-host"))
		})
	names := func() string {
		conn := m.DialPod("istio-ingress", 8080)
		_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: base.test\r\nConnection: close\r\n\r\n")
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		return string(answer)
	}
	require.Contains(t, names(), "\r\ncontent-type: ")
	m.Run("the case of names", withHeaders("{preserveHttp1HeaderCase: true}"), func(t *testing.T, _ *livemesh.Mesh) {
		require.Contains(t, names(), "\r\nContent-Type: ", "as the application writes it")
	})
}
