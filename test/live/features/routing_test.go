package features

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// toVersion is a route with a match: what it takes is answered by v2, all else by v1.
func toVersion(match string) string {
	return fmt.Sprintf(`
hosts: [web]
http:
- match: [%s]
  route: [%s]
- route: [%s]
`, match, subset("v2"), subset("v1"))
}

func TestRequestsFollowTheirVirtualService(t *testing.T) {
	m := webMesh(t)
	t.Run("matches", func(t *testing.T) { testMatches(t, m.With(t)) })
	t.Run("first match wins", func(t *testing.T) { testFirstMatch(t, m.With(t)) })
	t.Run("sources", func(t *testing.T) { testSources(t, m.With(t)) })
	t.Run("names", func(t *testing.T) { testNames(t, m.With(t)) })
	t.Run("wildcards", func(t *testing.T) { testWildcards(t, m.With(t)) })
	t.Run("weights", func(t *testing.T) { testWeights(t, m.With(t)) })
}

func testMatches(t *testing.T, m *livemesh.Mesh) {
	type request struct {
		path    string
		options []livemesh.Option
	}
	h, method := livemesh.Header, livemesh.Method
	for _, c := range []struct {
		name, match   string
		taken, passed []request
	}{
		{
			"uri exact",
			`{uri: {exact: /a}}`,
			[]request{{path: "/a"}, {path: "/a?x=1"}},
			[]request{{path: "/a/b"}, {path: "/A"}},
		},
		{
			"uri prefix",
			`{uri: {prefix: /a}}`,
			[]request{{path: "/a"}, {path: "/a/b"}, {path: "/ab"}},
			[]request{{path: "/b/a"}},
		},
		{
			"uri regex",
			`{uri: {regex: "/[0-9]+/x"}}`,
			[]request{{path: "/12/x"}},
			[]request{{path: "/12/x/y"}, {path: "/a/x"}},
		},
		{"uri long regex", `{uri: {regex: "/\\pL{3}-[a-z]{10,40}-[0-9]{1,20}"}}`,
			[]request{{path: "/abc-abcdefghijkl-123"}}, []request{{path: "/abc-abc-123"}}},
		{
			"uri without case",
			`{uri: {prefix: /a}, ignoreUriCase: true}`,
			[]request{{path: "/A"}, {path: "/a"}},
			[]request{{path: "/b"}},
		},
		{"header exact", `{headers: {x-user: {exact: jason}}}`,
			[]request{{"/", []livemesh.Option{h("X-User", "jason")}}},
			[]request{{path: "/"}, {"/", []livemesh.Option{h("x-user", "jasonx")}}}},
		{"header prefix", `{headers: {x-user: {prefix: ja}}}`,
			[]request{{"/", []livemesh.Option{h("x-user", "jason")}}},
			[]request{{"/", []livemesh.Option{h("x-user", "xja")}}}},
		{"header regex", `{headers: {x-user: {regex: "j.*n"}}}`,
			[]request{{"/", []livemesh.Option{h("x-user", "jason")}}},
			[]request{{"/", []livemesh.Option{h("x-user", "jason!")}}}},
		{"header present", `{headers: {x-user: {}}}`,
			[]request{{"/", []livemesh.Option{h("x-user", "anybody")}}}, []request{{path: "/"}}},
		{"header absent", `{withoutHeaders: {x-user: {exact: jason}}}`,
			[]request{{path: "/"}, {"/", []livemesh.Option{h("x-user", "other")}}},
			[]request{{"/", []livemesh.Option{h("x-user", "jason")}}}},
		{
			"method",
			`{method: {exact: POST}}`,
			[]request{{"/", []livemesh.Option{method("POST")}}},
			[]request{{path: "/"}},
		},
		{
			"query",
			`{queryParams: {v: {exact: "2"}}}`,
			[]request{{path: "/?v=2"}, {path: "/?a=b&v=2"}},
			[]request{{path: "/"}, {path: "/?v=22"}},
		},
		{"authority", `{authority: {exact: "web.default.svc.cluster.local"}}`,
			[]request{{"/", []livemesh.Option{livemesh.Host("web.default.svc.cluster.local")}}},
			[]request{{path: "/"}}},
		{"port", `{port: 8081}`, []request{{path: ":8081/"}}, []request{{path: "/"}}},
		{"all conditions of one", `{uri: {prefix: /a}, headers: {x-user: {exact: jason}}}`,
			[]request{{"/a", []livemesh.Option{h("x-user", "jason")}}},
			[]request{{path: "/a"}, {"/b", []livemesh.Option{h("x-user", "jason")}}}},
		{
			"any of several",
			`{uri: {exact: /a}}, {uri: {exact: /b}}`,
			[]request{{path: "/a"}, {path: "/b"}},
			[]request{{path: "/c"}},
		},
	} {
		m.Run(c.name, virtual("web", toVersion(c.match)), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			client := m.Client("client-v1")
			for _, r := range c.taken {
				requireVersion(t, "v2", client.Get("http://web"+r.path, r.options...))
			}
			for _, r := range c.passed {
				requireVersion(t, "v1", client.Get("http://web"+r.path, r.options...))
			}
		})
	}
}

func testFirstMatch(t *testing.T, m *livemesh.Mesh) {
	m.Run("in order", virtual("web", fmt.Sprintf(`
hosts: [web]
http:
- match: [{uri: {prefix: /a/b}}]
  route: [%s]
- match: [{uri: {prefix: /a}}]
  route: [%s]
- match: [{uri: {prefix: /a/c}}]
  directResponse: {status: 418}
`, subset("v2"), subset("v1"))), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1")
		requireVersion(t, "v2", client.Get("http://web/a/b"))
		requireVersion(t, "v1", client.Get("http://web/a/x"))
		requireVersion(t, "v1", client.Get("http://web/a/c"))
		requireStatus(t, 404, client.Get("http://web/other"))
	})
}

func testSources(t *testing.T, m *livemesh.Mesh) {
	m.Run("labels", virtual("web", toVersion(`{sourceLabels: {app: client}}`)), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v2", m.Client("client-v1").Get("http://web/"))
		requireVersion(t, "v1", m.Client("web-v1").Get("http://web/"))
	})
	const beside = `{sourceLabels: {app: nobody}, gateways: [mesh]}`
	m.Run("labels beside gateways", virtual("web", toVersion(beside)), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v2", m.Client("client-v1").Get("http://web/"))
	})
	m.Run("namespace", virtual("web", toVersion(`{sourceNamespace: other}`)), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v2", m.Client("other/far-v1").Get("http://web.default/"))
		requireVersion(t, "v1", m.Client("client-v1").Get("http://web/"))
	})
}

func testNames(t *testing.T, m *livemesh.Mesh) {
	client := m.Client("client-v1")
	for _, name := range []string{"web", "web.default", "web.default.svc", "web.default.svc.cluster.local",
		"web.default.svc.cluster.local.",
		"web:80", "web.default.svc.cluster.local:80", "web:8081", "WEB"} {
		a := client.Get("http://" + name + "/")
		require.True(t, a.OK(), "%s: %s", name, a)
		require.Contains(t, a.Echoed.Hostname, "web-", name)
	}
	for _, name := range []string{"far.other", "far.other.svc", "far.other.svc.cluster.local:80"} {
		a := client.Get("http://" + name + "/")
		require.True(t, a.OK(), "%s: %s", name, a)
		require.Contains(t, a.Echoed.Hostname, "far-", name)
	}
	require.True(t, m.Client("other/far-v1").Get("http://far/").OK(), "a short name is of the caller's namespace")
	require.False(t, client.Get("http://far/").OK(), "a short name is of the caller's namespace")
	require.False(t, client.Get("http://web:82/").OK(), "a port that the service does not have")

	m.Run("of a rule in another namespace", livemesh.File("far.yaml", livemesh.Object("VirtualService other/far", `
hosts: [far]
http:
- directResponse: {status: 418}
`)), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 418, m.Client("client-v1").Get("http://far.other/"))
	})
	m.Run("fully qualified", virtual("web", `
hosts: [web.default.svc.cluster.local]
http:
- route: [{destination: {host: far.other.svc.cluster.local, port: {number: 80}}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		require.Contains(t, m.Client("client-v1").Get("http://web/").Echoed.Hostname, "far-")
	})
}

func testWildcards(t *testing.T, m *livemesh.Mesh) {
	m.Run("the most specific host", virtual("a-wide", `
hosts: ["*.shop.test"]
http:
- route: [`+subset("v1")+`]
`)+virtual("b-narrow", `
hosts: ["*.new.shop.test"]
http:
- route: [`+subset("v2")+`]
`)+virtual("c-exact", `
hosts: ["x.new.shop.test"]
http:
- directResponse: {status: 418}
`), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1")
		requireVersion(t, "v1", client.Get("http://a.shop.test/"))
		requireVersion(t, "v1", client.Get("http://a.b.shop.test/"))
		requireVersion(t, "v2", client.Get("http://a.new.shop.test/"))
		requireStatus(t, 418, client.Get("http://x.new.shop.test/"))
	})
	m.Run("over services", virtual("all", `
hosts: ["*.svc.cluster.local"]
http:
- match: [{uri: {prefix: /tea}}]
  directResponse: {status: 418}
- route: [`+subset("v2")+`]
`), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1")
		requireStatus(t, 418, client.Get("http://web/tea"))
		requireStatus(t, 418, client.Get("http://far.other/tea"))
	})
}

func testWeights(t *testing.T, m *livemesh.Mesh) {
	const requests = 400
	for _, percent := range []int{0, 10, 50, 100} {
		m.Run(fmt.Sprintf("%d percent", percent), virtual("web", fmt.Sprintf(`
hosts: [web]
http:
- route:
  - destination: {host: web, subset: v1}
    weight: %d
  - destination: {host: web, subset: v2}
    weight: %d
`, 100-percent, percent)), func(t *testing.T, m *livemesh.Mesh) {
			got := m.Client("client-v1").Tally(requests, "http://web/", livemesh.ByVersion)
			require.Equal(t, requests, got["v1"]+got["v2"], "%v", got)
			low, high := binomialBounds(requests, float64(percent)/100)
			require.True(t, low <= got["v2"] && got["v2"] <= high, "v2 has %d of %d, want %d to %d", got["v2"],
				requests, low, high)
		})
	}
}
