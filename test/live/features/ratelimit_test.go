package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// limitRig is a mesh that limits are tried on, and who calls it.
type limitRig struct {
	*livemesh.Mesh
	client, other, gateway *livemesh.Client
	tokens                 *signer
	limits                 int // how many there were
}

// limitMesh has callers, the service web, and a gateway "public" with the routes limited and free
// of the Gateway API, and classic of a VirtualService.
func limitMesh(t *testing.T, more ...any) *limitRig {
	t.Helper()
	tokens := newSigner(t, "https://issuer.test")
	m := livemesh.Start(t, livemesh.File("base.yaml", append([]any{
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("other", "v1"),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		authentication("tokens", "web", tokenRule(tokens, "")),
		strings.ReplaceAll(livemesh.GatewayPod(8080, 8081), "istio: ingress", model.GatewayNameLabel+": public"),
		livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
listeners: [{name: any, port: 8080, protocol: HTTP}]
`),
		gatewayRoute("limited"), gatewayRoute("free"),
		livemesh.Object("Gateway classic", `
selector: {`+model.GatewayNameLabel+`: public}
servers: [{port: {number: 8081, name: http, protocol: HTTP}, hosts: ["*"]}]
`),
		livemesh.Object("VirtualService classic", `
hosts: ["*"]
gateways: [classic]
http:
- {name: limited, match: [{uri: {prefix: /limited}}], directResponse: {status: 200}}
- {name: free, route: [{destination: {host: web}}]}
`),
	}, more...)...))
	m.RequireNoProblems()
	return &limitRig{m, m.Client("client-v1"), m.Client("other-v1"), m.Gateway("istio-ingress", 8080), tokens, 0}
}

func gatewayRoute(name string) string {
	return livemesh.Object("HTTPRoute "+name, `
parentRefs: [{name: public}]
rules:
- name: all
  matches: [{path: {value: /`+name+`}}]
  backendRefs: [{name: web, port: 80}]
`)
}

// ofWeb is the spec of a RateLimit for web.
func ofWeb(spec string) string { return "selector: {matchLabels: {app: web}}\n" + spec }

// limit is a RateLimit that tells clients.
func limit(name, spec string) string {
	return livemesh.Object("RateLimit "+name, "responseHeaders: DraftVersion03\n"+spec)
}

// runs runs a test while there is a RateLimit, with a name that no other one has, and waits until
// that of the test before limits nothing any more.
func (m *limitRig) runs(name, spec string, test func(t *testing.T, m *limitRig, name string)) {
	m.Settle()
	for what, get := range map[string]func() livemesh.Answer{
		"the workload": m.from(m.client, "/"), "the gateway": func() livemesh.Answer { return m.gateway.Get("/free") },
	} {
		m.Await(what+" is not limited", func() bool {
			a := get()
			return a.OK() && a.Header.Get("x-ratelimit-limit") == ""
		})
	}
	m.limits++
	object := fmt.Sprint("limit-", m.limits)
	m.Run(name, livemesh.File(object+".yaml", limit(object, spec)), func(t *testing.T, of *livemesh.Mesh) {
		of.RequireNoProblems()
		rig := *m
		rig.Mesh = of
		test(t, &rig, object)
	})
}

// counted sends requests until n were counted by a limit, and returns their statuses. Those before
// the limit was in force say nothing of one.
func (m *limitRig) counted(n int, get func() livemesh.Answer) []int {
	var statuses []int
	m.Await("requests are counted", func() bool {
		a := get()
		if a.Header.Get("x-ratelimit-limit") != "" {
			statuses = append(statuses, a.Status)
		}
		return len(statuses) == n
	})
	return statuses
}

// from calls web.
func (m *limitRig) from(c *livemesh.Client, path string, options ...livemesh.Option) func() livemesh.Answer {
	return func() livemesh.Answer { return c.Get("http://web"+path, options...) }
}

// requirePasses requires that a limit does not count requests.
func (m *limitRig) requirePasses(t *testing.T, get func() livemesh.Answer) {
	t.Helper()
	for range 3 {
		a := get()
		requireStatus(t, http.StatusOK, a)
		require.Empty(t, a.Header.Get("x-ratelimit-limit"))
	}
}

const refused = http.StatusTooManyRequests

// TestRateLimitsOfProxies sends requests at limits that proxies keep for themselves.
func TestRateLimitsOfProxies(t *testing.T) {
	rig := limitMesh(t)
	twice := []int{200, 200, refused}
	rig.runs("by a header", ofWeb("local: {limits: [{requests: 2, per: Day, by: [{header: X-User}]}]}"),
		func(t *testing.T, m *limitRig, _ string) {
			for _, user := range []string{"ann", "bob"} {
				require.Equal(t, twice, m.counted(3, m.from(m.client, "/", livemesh.Header("x-user", user))), user)
			}
			require.Equal(t, twice, m.counted(3, m.from(m.client, "/")), "requests without it are counted together")
		})
	rig.runs("what counts", ofWeb(`
local:
  limits:
  - name: posts
    match:
      methods: [POST]
      paths: [{prefix: /it's/}, {regex: '/v\d+/.*'}]
      headers: [{name: x-tenant}, {name: x-plan, exact: free}]
    requests: 2
    per: Day
`), func(t *testing.T, m *limitRig, _ string) {
		all := []livemesh.Option{
			livemesh.Method(http.MethodPost), livemesh.Header("x-tenant", "a"), livemesh.Header("x-plan", "free"),
		}
		require.Equal(t, twice, m.counted(3, m.from(m.client, "/v1/x?a=b", all...)))
		requireStatus(t, refused, m.from(m.client, "/it's/x", all...)())
		m.requirePasses(t, m.from(m.client, "/vx/x", all...))
		for i := range all {
			m.requirePasses(t, m.from(m.client, "/v1/x", append(all[:i:i], all[i+1:]...)...))
		}
	})
	rig.runs("by the path", ofWeb("local: {limits: [{requests: 2, per: Day, by: [{request: Path}]}]}"),
		func(t *testing.T, m *limitRig, _ string) {
			n := 0
			require.Equal(t, twice, m.counted(3, func() livemesh.Answer {
				n++
				return m.from(m.client, fmt.Sprint("/a?", n))()
			}), "the query makes no other path")
			require.Equal(t, twice, m.counted(3, m.from(m.client, "/b")))
		})
	rig.runs("by a claim", ofWeb(`
local:
  limits:
  - {requests: 2, per: Day, by: [{claim: sub}], match: {claims: [{name: groups, values: [a, b]}]}}
`), func(t *testing.T, m *limitRig, _ string) {
		with := func(c claims) func() livemesh.Answer { return m.from(m.client, "/", bearer(m.tokens.token(c))) }
		require.Equal(t, twice, m.counted(3, with(claims{"sub": "ann", "groups": []string{"x", "b"}})))
		require.Equal(t, twice, m.counted(3, with(claims{"sub": "bob", "groups": "a"})))
		m.requirePasses(t, with(claims{"sub": "ann", "groups": []string{"c"}}))
		m.requirePasses(t, m.from(m.client, "/"))
	})
	rig.runs("of other callers", ofWeb(`
local: {limits: [{requests: 5, per: Day, match: {namespaces: [elsewhere]}}, {requests: 1000, per: Day, cost: 500}]}
`), func(t *testing.T, m *limitRig, _ string) {
		require.Equal(t, twice, m.counted(3, m.from(m.client, "/")), "each costs half of it")
	})
	rig.runs("in shadow mode", ofWeb("mode: Shadow\nlocal: {limits: [{requests: 1, per: Day}]}"),
		func(t *testing.T, m *limitRig, name string) {
			require.Equal(t, []int{200, 200, 200}, m.counted(3, m.from(m.client, "/")))
			require.Equal(t, 2, m.stat("web-v1", "default/"+name+".http_local_rate_limit.rate_limited"))
			require.Zero(t, m.stat("web-v1", "default/"+name+".http_local_rate_limit.enforced"))
		})
	rig.runs("clients are told", ofWeb("local: {limits: [{requests: 1, per: Minute}]}"),
		func(t *testing.T, m *limitRig, _ string) {
			require.Equal(t, []int{200, refused}, m.counted(2, m.from(m.client, "/")))
			a := m.from(m.client, "/")()
			requireStatus(t, refused, a)
			require.Equal(t, "1", a.Header.Get("x-ratelimit-limit"))
			require.Equal(t, "0", a.Header.Get("x-ratelimit-remaining"))
			require.NotEmpty(t, a.Header.Get("retry-after"))
		})
	rig.runs("of a Gateway", `
targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
local: {limits: [{requests: 2, per: Day}]}
`, func(t *testing.T, m *limitRig, _ string) {
		at := func() livemesh.Answer { return m.gateway.Get("/free") }
		require.Equal(t, twice, m.counted(3, at))
		m.requirePasses(t, m.from(m.client, "/"))
	})
	rig.runs("of routes", `
targetRefs:
- {group: gateway.networking.k8s.io, kind: HTTPRoute, name: limited}
- {group: networking.istio.io, kind: VirtualService, name: classic, sectionName: limited}
local: {limits: [{requests: 2, per: Day}]}
`, func(t *testing.T, m *limitRig, _ string) {
		require.Equal(t, twice, m.counted(3, func() livemesh.Answer { return m.gateway.Get("/limited") }))
		m.requirePasses(t, func() livemesh.Answer { return m.gateway.Get("/free") })
		classic := m.Gateway("istio-ingress", 8081)
		require.Equal(t, twice, m.counted(3, func() livemesh.Answer { return classic.Get("/limited") }))
		m.requirePasses(t, func() livemesh.Answer { return classic.Get("/") })
	})
}

// stat returns the sum of the counters of a workload's Envoy whose names end so.
func (m *limitRig) stat(workload, name string) (sum int) {
	for line := range strings.Lines(m.Admin(workload, "/stats?filter=rate_?limit")) {
		of, value, _ := strings.Cut(line, ": ")
		var n int
		if _, err := fmt.Sscan(value, &n); err == nil && strings.HasSuffix(of, name) {
			sum += n
		}
	}
	return sum
}
