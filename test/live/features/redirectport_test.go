package features

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestRedirectsToHTTPSLeadWhereTLSIsSpoken is a gateway that is not on port 80, so that the Host
// header has a port: a redirect to another scheme never keeps that one.
func TestRedirectsToHTTPSLeadWhereTLSIsSpoken(t *testing.T) {
	wild := certs.NewAuthority(t, "the gateway's").Issue(t, "*.shop.test")
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080, 8081, 8444), wild.Secret("default", "wild", ""),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.Object("Gateway istio", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: ["*.shop.test"]
  tls: {httpsRedirect: true}
- port: {number: 8444, name: https, protocol: HTTPS}
  hosts: [a.shop.test]
  tls: {mode: SIMPLE, credentialName: wild}
- port: {number: 8080, name: http-plain, protocol: HTTP}
  hosts: ["*.test", "*.shop.test"]
`), livemesh.Object("VirtualService a", `
hosts: [a.shop.test, b.shop.test]
gateways: [istio]
http: [{route: [{destination: {host: web}}]}]
`), livemesh.Object("VirtualService plain", `
hosts: [c.test]
gateways: [istio]
http:
- match: [{uri: {prefix: /default}}]
  redirect: {scheme: https, derivePort: FROM_PROTOCOL_DEFAULT}
- match: [{uri: {prefix: /scheme}}]
  redirect: {scheme: https}
- match: [{uri: {prefix: /request}}]
  redirect: {scheme: https, derivePort: FROM_REQUEST_PORT}
- match: [{uri: {prefix: /port}}]
  redirect: {scheme: https, port: 8444}
- match: [{uri: {prefix: /same}}]
  redirect: {uri: /there, derivePort: FROM_PROTOCOL_DEFAULT}
- match: [{uri: {prefix: /keep}}]
  redirect: {uri: /there}
`), livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
addresses: [{type: Hostname, value: istio-ingress}]
listeners: [{name: http, port: 8081, protocol: HTTP}]
`), livemesh.Object("HTTPRoute redirected", `
parentRefs: [{name: public}]
rules:
- matches: [{path: {type: PathPrefix, value: /scheme}}]
  filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]
- matches: [{path: {type: PathPrefix, value: /port}}]
  filters: [{type: RequestRedirect, requestRedirect: {scheme: https, port: 8444}}]
- matches: [{path: {type: PathPrefix, value: /listener}}]
  filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /there}}}]
`)))
	m.AwaitProblem("VirtualService default/plain", "http[2].redirect.derivePort", "8080 of Gateway default/istio")
	require.Len(t, m.Problems(), 1)
	for _, c := range []struct {
		port            uint16
		host, path, led string
	}{
		{8080, "a.shop.test:8080", "/x?q=1", "https://a.shop.test:8444/x?q=1"},
		{8080, "a.shop.test", "/x", "https://a.shop.test/x"},
		{8080, "a.shop.test:30080", "/x", "https://a.shop.test:443/x"},
		{8080, "b.shop.test:8080", "/x", "https://b.shop.test:443/x"},
		{8080, "b.shop.test:80", "/x", "https://b.shop.test:443/x"},
		{8080, "c.test:8080", "/default", "https://c.test:443/default"},
		{8080, "c.test", "/default", "https://c.test/default"},
		{8080, "c.test:8080", "/scheme", "https://c.test:443/scheme"},
		{8080, "c.test:8080", "/request", "https://c.test:8080/request"},
		{8080, "c.test:8080", "/port", "https://c.test:8444/port"},
		{8080, "c.test:8080", "/same", "http://c.test:80/there"},
		{8080, "c.test:8080", "/keep", "http://c.test:8080/there"},
		{8081, "d.test:8081", "/scheme", "https://d.test:443/scheme"},
		{8081, "d.test", "/scheme", "https://d.test/scheme"},
		{8081, "d.test:8081", "/port", "https://d.test:8444/port"},
		{8081, "d.test", "/listener", "http://d.test:8081/there"},
	} {
		a := m.Gateway("istio-ingress", c.port).Get(c.path, livemesh.Host(c.host))
		require.Equal(t, c.led, a.Header.Get("location"), "%s%s", c.host, c.path)
	}
}
