package features

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestRoutesActOnRequests is what routes do with requests, other than to choose where they go.
func TestRoutesActOnRequests(t *testing.T) {
	m := webMesh(t)
	t.Run("rewrite", func(t *testing.T) { testRewrite(t, m.With(t)) })
	t.Run("redirect", func(t *testing.T) { testRedirect(t, m.With(t)) })
	t.Run("direct response", func(t *testing.T) { testDirectResponse(t, m.With(t)) })
	t.Run("headers", func(t *testing.T) { testHeaders(t, m.With(t)) })
	t.Run("cors", func(t *testing.T) { testCORS(t, m.With(t)) })
	t.Run("mirror", func(t *testing.T) { testMirror(t, m.With(t)) })
}

func testRewrite(t *testing.T, m *livemesh.Mesh) {
	m.Run("all kinds", virtual("web", `
hosts: [web]
http:
- match: [{uri: {prefix: /old}}]
  rewrite: {uri: /new}
  route: [`+subset("v1")+`]
- match: [{uri: {exact: /one}}]
  rewrite: {uri: /two}
  route: [`+subset("v1")+`]
- match: [{uri: {prefix: /user}}]
  rewrite: {uriRegexRewrite: {match: "/user/([^/]+)/(.*)", rewrite: "/\\2/of/\\1"}}
  route: [`+subset("v1")+`]
- match: [{uri: {prefix: /authority}}]
  rewrite: {authority: elsewhere.test}
  route: [`+subset("v1")+`]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		client := m.Client("client-v1")
		require.Equal(t, "/new/x", client.Get("http://web/old/x").Echoed.Path)
		require.Equal(t, "a=b", client.Get("http://web/old/x?a=b").Echoed.Query)
		require.Equal(t, "/two", client.Get("http://web/one").Echoed.Path)
		require.Equal(t, "/books/of/ann", client.Get("http://web/user/ann/books").Echoed.Path)
		require.Equal(t, "elsewhere.test", client.Get("http://web/authority").Echoed.Host)
	})
}

func testRedirect(t *testing.T, m *livemesh.Mesh) {
	m.Run("all kinds", virtual("web", `
hosts: [web]
http:
- match: [{uri: {prefix: /uri}}]
  redirect: {uri: /there}
- match: [{uri: {prefix: /authority}}]
  redirect: {authority: other.test, redirectCode: 308}
- match: [{uri: {prefix: /scheme}}]
  redirect: {scheme: https, port: 8443, redirectCode: 302}
- match: [{uri: {prefix: /shop/}}]
  redirect: {authority: shop.test, prefixRewrite: /}
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		client := m.Client("client-v1")
		for _, c := range []struct {
			path     string
			status   int
			location string
		}{
			{"/uri?q=1", 301, "http://web/there?q=1"},
			{"/authority/x", 308, "http://other.test/authority/x"},
			{"/scheme", 302, "https://web:8443/scheme"},
			{"/shop/books?q=1", 301, "http://shop.test/books?q=1"},
		} {
			a := client.Get("http://web" + c.path)
			requireStatus(t, c.status, a)
			require.Equal(t, c.location, a.Header.Get("location"))
		}
	})
}

func testDirectResponse(t *testing.T, m *livemesh.Mesh) {
	m.Run("status and body", virtual("web", `
hosts: [web]
http:
- match: [{uri: {prefix: /tea}}]
  directResponse: {status: 418, body: {string: "short and stout"}}
- match: [{uri: {prefix: /bytes}}]
  directResponse: {status: 200, body: {bytes: aGVsbG8=}}
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		client := m.Client("client-v1")
		tea := client.Get("http://web/tea")
		requireStatus(t, 418, tea)
		require.Equal(t, "short and stout", tea.Body)
		require.Equal(t, "hello", client.Get("http://web/bytes").Body)
	})
}

func testHeaders(t *testing.T, m *livemesh.Mesh) {
	m.Run("of the route and of a destination", virtual("web", `
hosts: [web]
http:
- match: [{uri: {prefix: /two}}]
  route:
  - destination: {host: web, subset: v1}
    weight: 1
    headers: {request: {set: {x-to: one}}}
  - destination: {host: web, subset: v2}
    weight: 1
    headers: {request: {set: {x-to: two}}, response: {add: {x-from: two}}}
- headers:
    request:
      set: {x-set: new}
      add: {x-add: more}
      remove: [x-gone]
    response:
      set: {x-sample-version: hidden}
      add: {x-new: "yes"}
      remove: [x-sample-host]
  route: [`+subset("v1")+`]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		client := m.Client("client-v1")
		a := client.Get("http://web/", livemesh.Header("x-set", "old"), livemesh.Header("x-add", "some"),
			livemesh.Header("x-gone", "here"))
		require.True(t, a.OK(), "%s", a)
		require.Equal(t, []string{"new"}, a.Echoed.Headers.Values("x-set"))
		require.Equal(t, []string{"some", "more"}, a.Echoed.Headers.Values("x-add"))
		require.Empty(t, a.Echoed.Headers.Values("x-gone"))
		require.Equal(t, []string{"hidden"}, a.Header.Values("x-sample-version"))
		require.Equal(t, "yes", a.Header.Get("x-new"))
		require.Empty(t, a.Header.Get("x-sample-host"))

		seen := map[string]bool{}
		for range 40 { // both have been chosen, but for a chance of 2^-39
			a := client.Get("http://web/two")
			require.True(t, a.OK(), "%s", a)
			want := map[string]string{"v1": "one", "v2": "two"}[a.Echoed.Version]
			require.Equal(t, want, a.Echoed.Headers.Get("x-to"))
			require.Equal(t, a.Echoed.Version == "v2", a.Header.Get("x-from") == "two")
			seen[a.Echoed.Version] = true
		}
		require.Len(t, seen, 2)
	})
	m.Run("the host", virtual("web", `
hosts: [web]
http:
- headers: {request: {set: {Host: renamed.test}}}
  route: [`+subset("v1")+`]
`), func(t *testing.T, m *livemesh.Mesh) {
		require.Equal(t, "renamed.test", m.Client("client-v1").Get("http://web/").Echoed.Host)
	})
}

func testCORS(t *testing.T, m *livemesh.Mesh) {
	m.Run("policy", virtual("web", `
hosts: [web]
http:
- corsPolicy:
    allowOrigins: [{exact: "https://shop.test"}, {regex: "https://.*\\.shop\\.test"}]
    allowMethods: [GET, POST]
    allowHeaders: [x-token]
    exposeHeaders: [x-left]
    maxAge: 24h
    allowCredentials: true
  route: [`+subset("v1")+`]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		client := m.Client("client-v1")
		ask := func(origin string) livemesh.Answer {
			return client.Get("http://web/", livemesh.Method("OPTIONS"), livemesh.Header("origin", origin),
				livemesh.Header("access-control-request-method", "POST"))
		}
		for _, origin := range []string{"https://shop.test", "https://new.shop.test"} {
			preflight := ask(origin)
			requireStatus(t, 200, preflight)
			require.Empty(t, preflight.Body, "the proxy answers, not the workload")
			require.Equal(t, origin, preflight.Header.Get("access-control-allow-origin"))
			require.Equal(t, "GET,POST", preflight.Header.Get("access-control-allow-methods"))
			require.Equal(t, "x-token", preflight.Header.Get("access-control-allow-headers"))
			require.Equal(t, "86400", preflight.Header.Get("access-control-max-age"))
			require.Equal(t, "true", preflight.Header.Get("access-control-allow-credentials"))
		}
		require.Empty(t, ask("https://evil.test").Header.Get("access-control-allow-origin"))
		actual := client.Get("http://web/", livemesh.Header("origin", "https://shop.test"))
		require.True(t, actual.OK(), "%s", actual)
		require.Equal(t, "https://shop.test", actual.Header.Get("access-control-allow-origin"))
		require.Equal(t, "x-left", actual.Header.Get("access-control-expose-headers"))
	})
}

func testMirror(t *testing.T, m *livemesh.Mesh) {
	seen := newRecorder(t)
	shadow := livemesh.File("shadow.yaml", seen.entry("shadow.test"))
	route := func(percent string) string {
		return virtual("web", `
hosts: [web]
http:
- mirror: {host: shadow.test}
  mirrorPercentage: {value: `+percent+`}
  route: [`+subset("v1")+`]
`)
	}
	m.Run("all", shadow+route("100"), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "v1", m.Client("client-v1").Get("http://web/mirrored", livemesh.Header("x-user", "ann")))
		r := seen.await(m, "/mirrored")
		require.Equal(t, "ann", r.Header.Get("x-user"))
		require.Contains(t, r.Host, "-shadow", "Envoy marks what is mirrored")
	})
	m.Run("none", shadow+route("0"), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1")
		for range 20 {
			requireVersion(t, "v1", client.Get("http://web/unmirrored"))
		}
		require.Zero(t, seen.count("/unmirrored"))
	})
	m.Run("a mirror that fails harms nobody", virtual("web", `
hosts: [web]
http:
- mirrors: [{destination: {host: client, port: {number: 80}}}, {destination: {host: shadow.test}}]
  route: [`+subset("v1")+`]
`)+livemesh.File("shadow.yaml", livemesh.Object("ServiceEntry shadow", `
hosts: [shadow.test]
ports: [{number: 80, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: 127.0.0.1, ports: {http: 1}}]
`)), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", m.Client("client-v1").Get("http://web/"))
	})
}
