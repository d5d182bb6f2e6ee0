package features

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestDelegatesRouteInThePlaceOfTheRoot is about a VirtualService whose routes stand in another
// namespace: they are edited while requests run, go, and come back.
func TestDelegatesRouteInThePlaceOfTheRoot(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080),
		livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("far", "v2").In("team"), livemesh.Service("team/far", "http:80:8080"),
		livemesh.Object("Gateway g", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: ["*"]
`),
	))
	client, gateway := m.Client("client-v1"), m.Gateway("istio-ingress", 8080)
	shop := livemesh.Host("shop.example.test")
	m.Apply(virtual("root", `
hosts: [web, shop.example.test]
gateways: [g, mesh]
http:
- match: [{uri: {prefix: /api}}]
  delegate: {name: web, namespace: team}
  headers: {response: {set: {x-by: root}}}
- route: [{destination: {host: web}}]
`) + delegate("", `
http:
- match: [{uri: {prefix: /api/far}}]
  route: [{destination: {host: far}}]
- match: [{uri: {prefix: /elsewhere}}]
  directResponse: {status: 418}
- match: [{uri: {prefix: /api/teapot}}]
  headers: {response: {set: {x-by: delegate}}}
  directResponse: {status: 418}
- route: [{destination: {host: web.default.svc.cluster.local}}]
`))
	m.AwaitProblem("spec.http[0].delegate", "team/web", "its spec.http[1] is left out")
	requireFar := func() {
		requireVersion(t, "v2", client.Get("http://web/api/far"))
		requireVersion(t, "v2", gateway.Get("/api/far", shop))
	}
	requireFar()
	requireVersion(t, "v1", client.Get("http://web/api"))
	requireVersion(t, "v1", client.Get("http://web/elsewhere"))
	requireBy(t, "root", client.Get("http://web/api"))
	requireStatus(t, 418, client.Get("http://web/api/teapot"))
	requireBy(t, "delegate", client.Get("http://web/api/teapot"))
	requireBy(t, "", client.Get("http://web/"))

	t.Run("edited", func(t *testing.T) {
		m := m.With(t)
		load := m.Client("client-v1").Load("http://web/api/far")
		load.Advance(20)
		for range 3 {
			m.Apply(delegate("", "http: [{route: [{destination: {host: web.default.svc.cluster.local}}]}]\n"))
			requireVersion(t, "v1", client.Get("http://web/api/far"))
			requireVersion(t, "v1", gateway.Get("/api/far", shop))
			m.Apply(delegate("", "http: [{route: [{destination: {host: far}}]}]\n"))
			requireFar()
		}
		load.Advance(20)
		load.Stop()
	})
	t.Run("closed", func(t *testing.T) {
		m := m.With(t)
		load := m.Client("client-v1").Load("http://web/")
		closed := func(why string) {
			m.AwaitProblem("spec.http[0].delegate", "team/web", why, "answered with 503")
			requireStatus(t, 503, client.Get("http://web/api/far"))
			requireStatus(t, 503, gateway.Get("/api/far", shop))
		}
		m.Delete("delegate.yaml")
		m.Settle()
		closed("there is no such VirtualService")
		m.Apply(delegate("exportTo: [\".\"]\n", "http: [{route: [{destination: {host: far}}]}]\n"))
		closed("is not exported to namespace default")
		m.Apply(delegate("hosts: [team.test]\n", "http: [{route: [{destination: {host: far}}]}]\n"))
		closed("has hosts of its own")
		m.Apply(delegate("exportTo: [default]\n", "http: [{route: [{destination: {host: far}}]}]\n"))
		requireFar()
		m.RequireNoProblems()
		load.Stop()
	})
	t.Run("without a root", func(t *testing.T) {
		m := m.With(t)
		m.Delete("virtual-root.yaml")
		m.Settle()
		m.AwaitProblem("VirtualService team/web", "no VirtualService delegates to this one")
		requireVersion(t, "v1", client.Get("http://web/api/far"))
		requireStatus(t, 404, gateway.Get("/api/far", shop))
	})
}

// delegate is a file with the VirtualService team/web.
func delegate(parts ...string) string {
	spec := ""
	for _, p := range parts {
		spec += p
	}
	return livemesh.File("delegate.yaml", livemesh.Object("VirtualService team/web", spec))
}

func requireBy(t *testing.T, want string, a livemesh.Answer) {
	t.Helper()
	if got := a.Header.Get("x-by"); got != want {
		t.Fatalf("x-by is %q, want %q: %s", got, want, a)
	}
}
