package features

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

const kubernetesGateway = "Gateway." + kinds.GatewayAPIGroup

// TestGatewayAPILeadsRequestsIntoTheMesh is the Gateway API on a gateway that a user deploys.
func TestGatewayAPILeadsRequestsIntoTheMesh(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080, 8081),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("far", "v2").In("other"), livemesh.Service("other/far", "http:80:8080"),
		livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
addresses: [{type: Hostname, value: istio-ingress}]
listeners:
- {name: any, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
- {name: own, port: 8080, protocol: HTTP, hostname: own.test}
- {name: second, port: 8081, protocol: HTTP, hostname: "*.second.test"}
`),
		livemesh.Object("HTTPRoute base", `
parentRefs: [{name: public}]
hostnames: [base.test]
rules: [{backendRefs: [{name: web, port: 80}]}]
`),
	))
	gateway, second := m.Gateway("istio-ingress", 8080), m.Gateway("istio-ingress", 8081)
	get := func(host, path string, options ...livemesh.Option) livemesh.Answer {
		return gateway.Get(path, append(options, livemesh.Host(host))...)
	}
	far := `
rules:
- backendRefs: [{name: far, namespace: other, port: 80}]
`

	m.Run("hosts and listeners", livemesh.File("gw.yaml",
		livemesh.Object("HTTPRoute all", `
parentRefs: [{name: public, sectionName: any}, {name: public, port: 8081}]
rules: [{backendRefs: [{name: web, port: 80}]}]
`),
		livemesh.Object("HTTPRoute other/all", `
parentRefs: [{name: public, namespace: default}]
hostnames: [other.test, own.test]
`+far[1:]),
	), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", get("base.test", "/"))
		requireVersion(t, "v1", get("unknown.test", "/"))
		requireVersion(t, "v2", get("other.test", "/"))
		requireStatus(t, 404, get("own.test", "/")) // its listener takes no route of other namespaces
		requireVersion(t, "v1", second.Get("/", livemesh.Host("a.second.test")))
		requireStatus(t, 404, second.Get("/", livemesh.Host("base.test")))
	})
	m.Run("matches in their order", livemesh.File("gw.yaml",
		livemesh.Object("HTTPRoute order", `
parentRefs: [{name: public}]
hostnames: [order.test]
rules:
- filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /rest}}}]
- matches: [{path: {value: /shop}}]
  filters:
  - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}
  - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-set, value: "100%"}]}}
  backendRefs: [{name: web, port: 80}]
- matches: [{path: {value: /shop}, headers: [{name: x-kind, value: new}]}]
  filters: [{type: RequestRedirect, requestRedirect: {scheme: https, hostname: new.test, statusCode: 301}}]
- matches: [{path: {value: /shop/cart}, method: POST}, {path: {type: Exact, value: /exact}}]
  filters: [{type: URLRewrite, urlRewrite: {hostname: h.test, path: {type: ReplaceFullPath, replaceFullPath: /full}}}]
  backendRefs: [{name: web, port: 80}]
- matches: [{path: {value: /prefix}}]
  filters:
  - {type: RequestRedirect, requestRedirect: {port: 9, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new/}}}
`),
	), func(t *testing.T, m *livemesh.Mesh) {
		shop := get("order.test", "/shop/a?q=1")
		requireVersion(t, "v1", shop)
		require.Equal(t, "/a", shop.Echoed.Path)
		require.Equal(t, "q=1", shop.Echoed.Query)
		require.Equal(t, "100%", shop.Echoed.Headers.Get("X-Set"))
		require.Equal(t, "/", get("order.test", "/shop").Echoed.Path)
		elsewhere := get("order.test", "/shopping")
		requireStatus(t, 302, elsewhere)
		require.Equal(t, "http://order.test:8080/rest", elsewhere.Header.Get("Location"))
		moved := get("order.test", "/shop/a", livemesh.Header("x-kind", "new"))
		requireStatus(t, 301, moved)
		require.Equal(t, "https://new.test/shop/a", moved.Header.Get("Location"))
		full := get("order.test", "/exact")
		require.Equal(t, "/full", full.Echoed.Path)
		require.Equal(t, "h.test", full.Echoed.Host)
		require.Equal(t, "http://order.test:9/new/a", get("order.test", "/prefix/a").Header.Get("Location"))
	})
	m.Run("references", livemesh.File("gw.yaml",
		livemesh.Object("HTTPRoute refs", `
parentRefs: [{name: public}]
hostnames: [refs.test]
`+far[1:]+`
- matches: [{path: {value: /missing}}]
  backendRefs: [{name: nowhere, port: 80}]
- matches: [{path: {value: /none}}]
- matches: [{path: {value: /bad}}]
  filters: [{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}]
  backendRefs: [{name: web, port: 80}]
`),
	), func(t *testing.T, m *livemesh.Mesh) {
		for _, path := range []string{"/", "/missing", "/none", "/bad"} {
			requireStatus(t, 500, get("refs.test", path))
		}
		m.Write("grant.yaml", livemesh.Object("ReferenceGrant other/grant", `
from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}]
to: [{group: "", kind: Service, name: far}]
`))
		m.Settle()
		requireVersion(t, "v2", get("refs.test", "/"))
		m.Delete("grant.yaml")
		m.Settle()
		requireStatus(t, 500, get("refs.test", "/"))
	})
}
