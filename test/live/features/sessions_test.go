package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestClientsStayWithAnEndpoint is persistent sessions: by labels of a Service, with a cookie and
// with a header, for sidecars and gateways, and by a rule of the Gateway API. They last while other
// endpoints come.
func TestClientsStayWithAnEndpoint(t *testing.T) {
	service := func(label string) string {
		return livemesh.File("web.yaml", strings.Replace(livemesh.Service("web", "http:80:8080"), "metadata: {",
			"metadata: {labels: {"+label+"}, ", 1))
	}
	m := livemesh.StartWith(t, livemesh.Options{Sessions: true}, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.GatewayPod(8080, 8081),
		livemesh.Object("Gateway in", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: ["*"]
`),
		livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
addresses: [{type: Hostname, value: istio-ingress}]
listeners: [{name: any, port: 8081, protocol: HTTP}]
`),
		livemesh.Object("VirtualService in",
			"hosts: [web.test]\ngateways: [in]\nhttp:\n- route: [{destination: {host: web}}]\n"),
	)+livemesh.File("pods.yaml", livemesh.NewEcho("web", "v1").Replicas(3))+service(""))
	m.RequireNoProblems()
	sidecar, gateway := m.Client("client-v1"), m.Gateway("istio-ingress", 8080)
	get := func(c *livemesh.Client, options ...livemesh.Option) livemesh.Answer {
		if c == sidecar {
			return c.Get("http://web/", options...)
		}
		return c.Get("/", append(options, livemesh.Host("web.test"))...)
	}
	sticks := func(t *testing.T, c *livemesh.Client, name string) (kept livemesh.Option, pod string) {
		first := get(c)
		cookies := (&http.Response{Header: first.Header}).Cookies()
		require.Len(t, cookies, 1, "%v", first.Header)
		require.Equal(t, name, cookies[0].Name)
		require.Equal(t, "/", cookies[0].Path)
		kept = livemesh.Header("cookie", name+"="+cookies[0].Value)
		for range 12 {
			require.Equal(t, first.Echoed.Hostname, get(c, kept).Echoed.Hostname)
		}
		return kept, first.Echoed.Hostname
	}
	require.Empty(t, (&http.Response{Header: get(sidecar).Header}).Cookies())
	for _, c := range []*livemesh.Client{sidecar, gateway} {
		m.Run("a cookie", service(`istio.io/persistent-session: near`), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			kept, pod := sticks(t, c, "near")
			m.Apply(livemesh.File("pods.yaml", livemesh.NewEcho("web", "v1").Replicas(4)))
			used := map[string]bool{}
			for range 40 {
				require.Equal(t, pod, get(c, kept).Echoed.Hostname)
				used[get(c).Echoed.Hostname] = true
			}
			require.Greater(t, len(used), 1, "clients without a cookie are spread")
		})
		m.Run("a header", service("istio.io/persistent-session-header: x-near"), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			first := get(c)
			value := first.Header.Get("x-near")
			require.NotEmpty(t, value, "%v", first.Header)
			for range 12 {
				require.Equal(t, first.Echoed.Hostname, get(c, livemesh.Header("x-near", value)).Echoed.Hostname)
			}
		})
	}
	m.Run("of a rule", service("")+livemesh.File("rule.yaml", livemesh.Object("HTTPRoute web", `
parentRefs: [{name: public}]
rules:
- sessionPersistence: {sessionName: ruled, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}
  backendRefs: [{name: web, port: 80}]
`)), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		sticks(t, m.Gateway("istio-ingress", 8081), "ruled")
	})
}

// TestClientsStayWithAnEndpointThatEnds: while a Pod of a Service with sessions ends and still
// serves, its clients stay with it and new ones go elsewhere. Once it is gone, they go elsewhere
// too.
func TestClientsStayWithAnEndpointThatEnds(t *testing.T) {
	m := livemesh.StartWith(t, livemesh.Options{Sessions: true}, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1").Bare(), livemesh.NewEcho("web", "v2").Bare(),
		`
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default, labels: {istio.io/persistent-session: near}}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
`))
	m.RequireNoProblems()
	endpoints := func(of ...string) string {
		var all strings.Builder
		for _, e := range of {
			version, conditions, _ := strings.Cut(e, ": ")
			fmt.Fprintf(&all, "- {addresses: [%s], conditions: {%s}}\n", m.Pod("web-"+version).Pod, conditions)
		}
		return livemesh.File("slice.yaml", `
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
`+all.String())
	}
	client := m.Client("client-v1")
	get := func(options ...livemesh.Option) livemesh.Answer { return client.Get("http://web/", options...) }
	const serves, ends = "ready: true", "ready: false, serving: true, terminating: true"

	m.Apply(endpoints("v1: " + serves))
	m.RequireNoProblems()
	m.Await("the Service has an endpoint", func() bool { return get().OK() })
	cookies := (&http.Response{Header: get().Header}).Cookies()
	require.Len(t, cookies, 1)
	kept := livemesh.Header("cookie", "near="+cookies[0].Value)

	m.Apply(endpoints("v1: "+ends, "v2: "+serves))
	m.Await("new clients go to the other", func() bool { return get().Echoed.Version == "v2" })
	for range 12 {
		requireVersion(t, "v2", get())
		requireVersion(t, "v1", get(kept))
	}
	m.Apply(endpoints("v2: " + serves))
	m.Await("the endpoint is gone", func() bool { return get(kept).Echoed.Version == "v2" })
	for range 12 {
		requireVersion(t, "v2", get(kept))
	}
}
