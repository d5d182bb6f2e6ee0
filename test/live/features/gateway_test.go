package features

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// baseRoute leads requests of base.test from port 8080 of the gateways to web.
func baseRoute() string {
	return livemesh.Object("Gateway base", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [base.test]
`) + livemesh.Object("VirtualService base", `
hosts: [base.test]
gateways: [base]
http:
- route: [{destination: {host: web}}]
`)
}

// TestGatewaysLeadRequestsIntoTheMesh is the way in.
func TestGatewaysLeadRequestsIntoTheMesh(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080, 8081),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("far", "v2").In("other"), livemesh.Service("other/far", "http:80:8080"),
		baseRoute(),
	))
	gateway, other := m.Gateway("istio-ingress", 8080), m.Gateway("istio-ingress", 8081)
	get := func(host, path string) livemesh.Answer { return gateway.Get(path, livemesh.Host(host)) }

	m.Run("hosts", livemesh.File("gw.yaml",
		livemesh.Object("Gateway shop", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: ["*.shop.test", "other/only.test"]
`),
		livemesh.Object("VirtualService shop", `
hosts: [a.shop.test, stranger.test, only.test]
gateways: [shop]
http:
- route: [{destination: {host: web}}]
`),
		livemesh.Object("VirtualService other/only", `
hosts: [only.test]
gateways: [default/shop]
http:
- route: [{destination: {host: far}}]
`),
	), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", get("base.test", "/"))
		requireVersion(t, "v1", get("a.shop.test", "/"))
		requireVersion(t, "v1", get("a.shop.test:8080", "/"))
		requireVersion(t, "v2", get("only.test", "/"))
		requireStatus(t, 404, get("b.shop.test", "/"))
		requireStatus(t, 404, get("stranger.test", "/"))
		requireStatus(t, 404, get("unknown.test", "/"))
	})
	m.Run("several on several ports", livemesh.File("gw.yaml",
		livemesh.Object("Gateway one", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [one.test]
`),
		livemesh.Object("Gateway other/two", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [two.test]
- port: {number: 8081, name: http-too, protocol: HTTP}
  hosts: ["*"]
`),
		livemesh.Object("Gateway elsewhere", `
selector: {istio: another}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [elsewhere.test]
`),
		livemesh.Object("VirtualService both", `
hosts: [one.test, elsewhere.test]
gateways: [one, elsewhere]
http:
- route: [{destination: {host: web}}]
`),
		livemesh.Object("VirtualService other/two", `
hosts: ["*"]
gateways: [two]
http:
- route: [{destination: {host: far}}]
`),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "v1", get("one.test", "/"))
		requireVersion(t, "v2", get("two.test", "/"))
		requireStatus(t, 404, get("elsewhere.test", "/"))
		requireStatus(t, 404, get("unknown.test", "/"))
		requireVersion(t, "v2", other.Get("/", livemesh.Host("unknown.test")))
		requireVersion(t, "v2", other.Get("/", livemesh.Host("one.test")))
	})
	m.Run("a closed port", "", func(t *testing.T, m *livemesh.Mesh) {
		require.Error(t, m.Gateway("istio-ingress", 8081).Get("/").Err,
			"connections of before are served on for a while, new ones are not taken")
		requireVersion(t, "v1", get("base.test", "/"))
	})
	m.Run("redirect to https", livemesh.File("gw.yaml",
		livemesh.Object("Gateway secure", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [secure.test]
  tls: {httpsRedirect: true}
`),
		livemesh.Object("VirtualService secure", `
hosts: [secure.test]
gateways: [secure]
http:
- route: [{destination: {host: web}}]
`),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		a := get("secure.test", "/path?q=1")
		requireStatus(t, 301, a)
		require.Equal(t, "https://secure.test/path?q=1", a.Header.Get("location"))
		requireVersion(t, "v1", get("base.test", "/"))
	})
	m.Run("a route that is not in force", livemesh.File("gw.yaml",
		livemesh.Object("Gateway closed", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [closed.test]
`),
		livemesh.Object("VirtualService closed", `
hosts: [closed.test]
gateways: [closed]
http:
- match: [{headers: {x-secret: {regex: "("}}}]
  route: [{destination: {host: web}}]
`),
	), func(t *testing.T, m *livemesh.Mesh) {
		a := get("closed.test", "/")
		requireStatus(t, 503, a)
		require.Equal(t, "This route is not in force: its object's status says why\n", a.Body, "to strangers")
	})
	m.Run("ports of a Service that says nothing about them", livemesh.File("gw.yaml",
		strings.Replace(livemesh.Selecting("default", "as-it-is", "istio: ingress", "http:8081:8080"),
			"metadata: {", `metadata: {labels: {experimental.istio.io/disable-gateway-port-translation: "true"}, `, 1),
		livemesh.Object("Gateway direct", `
selector: {istio: ingress}
servers:
- port: {number: 8081, name: http, protocol: HTTP}
  hosts: [direct.test]
`),
		livemesh.Object("VirtualService direct", `
hosts: [direct.test]
gateways: [direct]
http:
- route: [{destination: {host: web}}]
`),
	), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", other.Get("/", livemesh.Host("direct.test")))
		requireStatus(t, 404, get("direct.test", "/"))
	})
	m.Run("routes for gateways and mesh in one", virtual("both", `
hosts: [web.default.svc.cluster.local, both.test]
gateways: [both, mesh]
http:
- match: [{gateways: [both], uri: {prefix: /in}}]
  directResponse: {status: 201}
- match: [{gateways: [mesh], uri: {prefix: /in}}]
  directResponse: {status: 202}
- route: [{destination: {host: web}}]
`)+livemesh.File("gw.yaml", livemesh.Object("Gateway both", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [both.test]
`)), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireStatus(t, 201, get("both.test", "/in"))
		requireVersion(t, "v1", get("both.test", "/"))
		inside := m.Client("other/far-v2")
		requireStatus(t, 202, inside.Get("http://web.default/in"))
		requireVersion(t, "v1", inside.Get("http://web.default/"))
	})
	m.Run("routes for gateways alone", virtual("alone", `
hosts: [web.default.svc.cluster.local]
gateways: [base]
http:
- directResponse: {status: 418}
`), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", m.Client("other/far-v2").Get("http://web.default/"))
	})
	m.Run("hosts of one gateway from several objects", virtual("a-first", `
hosts: [base.test]
gateways: [base]
http:
- match: [{uri: {prefix: /tea}}]
  directResponse: {status: 418}
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireStatus(t, 418, get("base.test", "/tea"))
		requireVersion(t, "v1", get("base.test", "/"))
	})
}
