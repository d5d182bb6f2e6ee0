package features

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestIngressesLeadRequestsIntoTheMesh is the way in as Kubernetes says it.
func TestIngressesLeadRequestsIntoTheMesh(t *testing.T) {
	authority := certs.NewAuthority(t, "test authority")
	pair := authority.Issue(t, "shop.test")
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080, 8443), livemesh.Selecting("default", "entrance", "istio: ingress", "http:80:8080",
			"https:443:8443"),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("cart", "v2"), livemesh.Service("cart", "http-main:8000:8080"),
		pair.Secret("default", "shop", ""), `
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: "ingressSelector: ingress"}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: mine}
spec: {controller: istio.io/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: default}
spec:
  ingressClassName: mine
  tls: [{hosts: [shop.test], secretName: shop}]
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /cart, pathType: Prefix, backend: {service: {name: cart, port: {name: http-main}}}}
      - {path: /lost, pathType: Exact, backend: {service: {name: cart, port: {name: nonsense}}}}
  defaultBackend: {service: {name: cart, port: {number: 8000}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: theirs, namespace: default}
spec:
  ingressClassName: nginx
  rules:
  - host: theirs.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
`))
	m.AwaitProblem("error", "Ingress default/shop", "spec.rules.http.paths.backend.service.port.name", "nonsense")
	require.Len(t, m.Problems(), 1)
	gateway, secure := m.Gateway("istio-ingress", 8080), m.SecureGateway("istio-ingress", 8443, trusting(authority))
	get := func(host, path string) livemesh.Answer { return gateway.Get(path, livemesh.Host(host)) }
	for _, ask := range []func(path string) livemesh.Answer{
		func(path string) livemesh.Answer { return get("shop.test", path) },
		func(path string) livemesh.Answer { return secure.Get("https://shop.test" + path) },
	} {
		requireVersion(t, "v1", ask("/"))
		requireVersion(t, "v1", ask("/cartoon"))
		requireVersion(t, "v2", ask("/cart"))
		requireVersion(t, "v2", ask("/cart/checkout"))
		requireStatus(t, 503, ask("/lost"))
	}
	requireVersion(t, "v2", get("another.test", "/"))
	requireVersion(t, "v2", get("theirs.test", "/"))

	m.Run("another Ingress has paths of the host", livemesh.File("second.yaml", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop-fresh, namespace: default}
spec:
  ingressClassName: mine
  tls: [{hosts: [shop.test], secretName: shop}]
  rules:
  - host: shop.test
    http: {paths: [{path: /fresh, pathType: Prefix, backend: {service: {name: cart, port: {number: 8000}}}}]}
`), func(t *testing.T, m *livemesh.Mesh) {
		require.Len(t, m.Problems(), 1, "the same certificate twice is no conflict")
		for _, answer := range []livemesh.Answer{
			get("shop.test", "/fresh"), secure.Get("https://shop.test/fresh"),
		} {
			requireVersion(t, "v2", answer)
		}
		requireVersion(t, "v1", secure.Get("https://shop.test/freshly"))
	})
	m.Run("the class is taken over", livemesh.File("class.yaml", `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: istio.io/ingress-controller}
`), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", get("theirs.test", "/"))
		requireVersion(t, "v1", get("shop.test", "/"))
	})
	m.Run("and given back", "", func(t *testing.T, _ *livemesh.Mesh) {
		requireVersion(t, "v2", get("theirs.test", "/"))
	})
}
