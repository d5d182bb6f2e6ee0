package features

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// limitServer is the configuration of Envoy's rate limit service. A limit of 0 tells that it is
// asked.
const limitServer = `
domain: ratelimit
descriptors:
- {key: PATH, value: /none, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: PATH, value: /productpage, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: PATH, rate_limit: {unit: day, requests_per_unit: 100000}}
- key: limit
  value: posts
  rate_limit: {unit: day, requests_per_unit: 2}
- key: limit
  value: users
  descriptors: [{key: x-user, rate_limit: {unit: day, requests_per_unit: 2}}]
- {key: limit, value: many, rate_limit: {unit: day, requests_per_unit: 1500}}
`

// freePort is a port that nobody has.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	return listener.Addr().(*net.TCPAddr).Port
}

// startLimitServer runs Envoy's rate limit service, and returns its port.
func startLimitServer(t *testing.T) int {
	t.Helper()
	program := tool.Path(t, "ratelimit", "ratelimit")
	root := t.TempDir()
	config := filepath.Join(root, "ratelimit", "config")
	require.NoError(t, os.MkdirAll(config, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(config, "limits.yaml"), []byte(limitServer), 0o600))
	port := freePort(t)
	server := exec.CommandContext(t.Context(), program)
	server.Env = append(os.Environ(), "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit",
		"RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", fmt.Sprint("GRPC_PORT=", port),
		fmt.Sprint("PORT=", freePort(t)), fmt.Sprint("DEBUG_PORT=", freePort(t)))
	server.Stderr = os.Stderr
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	return port
}

// limitServerEntry is the service of a port of this machine.
func limitServerEntry(host string, port int) string {
	return livemesh.Object("ServiceEntry "+strings.SplitN(host, ".", 2)[0], fmt.Sprintf(`
hosts: [%s]
ports: [{number: 8081, name: grpc, protocol: GRPC, targetPort: %d}]
location: MESH_EXTERNAL
resolution: STATIC
endpoints: [{address: 127.0.0.1}]
`, host, port))
}

// TestRateLimitsOfAServer has proxies ask Envoy's rate limit service, by RateLimits and by the
// EnvoyFilters of Istio's task.
func TestRateLimitsOfAServer(t *testing.T) {
	port := startLimitServer(t)
	rig := limitMesh(t, limitServerEntry("ratelimit.default.svc.cluster.local", port),
		limitServerEntry("nobody.test", freePort(t)))
	// asking is what a RateLimit asks the server.
	asking := func(descriptors string) string {
		return "global:\n  service: {host: ratelimit.default.svc.cluster.local, port: 8081}\n  domain: ratelimit\n" +
			"  timeout: 10s\n  failClosed: true\n  descriptors: " + descriptors + "\n"
	}
	// awaitAsked waits until the server is there and asked: it refuses what is limited to nothing.
	awaitAsked := func(m *limitRig, get func() livemesh.Answer) {
		m.Await("the server is asked", func() bool { return get().Status == refused })
	}
	statuses := func(n int, get func() livemesh.Answer) (all []int) {
		for range n {
			all = append(all, get().Status)
		}
		return all
	}
	twice := []int{200, 200, refused}
	rig.runs("a workload", ofWeb(asking("[{by: [{request: Path, key: PATH}]}, "+
		"{name: posts, match: {methods: [POST]}}, {name: users, by: [{header: x-user}]}]")),
		func(t *testing.T, m *limitRig, _ string) {
			user := func(name string) livemesh.Option { return livemesh.Header("x-user", name) }
			awaitAsked(m, m.from(m.client, "/none", user("nobody")))
			require.Equal(t, twice, statuses(3, m.from(m.client, "/a", user("ann"))))
			require.Equal(t, twice, statuses(3, m.from(m.client, "/a", user("bob"))))
			post := livemesh.Method(http.MethodPost)
			require.Equal(t, []int{200, 200}, statuses(2, m.from(m.client, "/a", post, user("cid"))))
			require.Equal(t, refused, m.from(m.client, "/a", post, user("dan"))().Status)
			require.Equal(t, 200, m.from(m.client, "/a", user("dan"))().Status)
		})
	rig.runs("in shadow mode", ofWeb("mode: Shadow\n"+asking("[{by: [{request: Path, key: PATH}]}]")),
		func(t *testing.T, m *limitRig, name string) {
			m.Await("it counts", func() bool {
				requireStatus(t, 200, m.from(m.client, "/none")())
				return m.stat("web-v1", ".ratelimit.default/"+name+".over_limit") > 0
			})
		})
	nobody := strings.ReplaceAll(asking("[{name: posts}]"), "ratelimit.default.svc.cluster.local", "nobody.test")
	rig.runs("without a server requests get 503", ofWeb(nobody), func(t *testing.T, m *limitRig, _ string) {
		m.Await("requests are refused", func() bool { return m.from(m.client, "/")().Status == 503 })
	})
	open := strings.ReplaceAll(nobody, "failClosed: true", "failClosed: false")
	rig.runs("without a server requests pass", ofWeb(open),
		func(t *testing.T, m *limitRig, name string) {
			m.Await("the server is missed", func() bool {
				requireStatus(t, 200, m.from(m.client, "/")())
				return m.stat("web-v1", ".ratelimit.default/"+name+".failure_mode_allowed") > 0
			})
		})
	rig.runs("a gateway counts exactly at 1,000 requests a second", `
targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: limited}]
`+asking("[{by: [{request: Path, key: PATH}]}, {name: many, match: {paths: [{exact: /limited}]}}]"),
		func(t *testing.T, m *limitRig, _ string) {
			m.Await("the server is asked", func() bool {
				return m.gateway.Get("/limited/x").Header.Get("x-ratelimit-limit") != ""
			})
			r := drive(m.gateway, "/limited", 3000)
			requireWithin(t, 1500, 1500, r.allowed)
		})
	t.Run("Istio's task", func(t *testing.T) { istiosTask(t, rig, awaitAsked) })
}

// istiosTask has the EnvoyFilters of Istio's task.
func istiosTask(t *testing.T, rig *limitRig, awaitAsked func(*limitRig, func() livemesh.Answer)) {
	text, err := os.ReadFile("testdata/istio-ratelimit/global.yaml")
	require.NoError(t, err)
	of := rig.With(t)
	// The gateway of this mesh has another label.
	filters := strings.ReplaceAll(string(text), "istio: ingressgateway", model.GatewayNameLabel+": public")
	of.Write("task.yaml", filters)
	defer of.Delete("task.yaml")
	of.Settle()
	for _, p := range of.Problems() { // it matches a route of virtual hosts, which is a warning
		require.Equal(t, source.Warning, p.Severity, p)
	}
	m := *rig
	m.Mesh = of
	get := func(path string) func() livemesh.Answer {
		return func() livemesh.Answer { return m.Gateway("istio-ingress", 8081).Get(path) }
	}
	awaitAsked(&m, get("/none"))
	require.Equal(t, 200, get("/productpage")().Status)
	require.Equal(t, 200, get("/productpage")().Status)
	require.Equal(t, refused, get("/productpage")().Status)
	require.Equal(t, 200, get("/other")().Status)
}

// driven is what became of requests.
type driven struct {
	allowed, denied, other int
	// shortest is from the first answer to the last request, and longest from the first request to
	// the last answer: what Envoy saw lies between.
	shortest, longest time.Duration
}

// drive sends requests at 1,000 a second, on as many connections as it takes.
func drive(c *livemesh.Client, path string, n int) driven {
	const workers = 10
	type answer struct {
		status           int
		sent, answeredAt time.Time
	}
	answers := make(chan answer, n)
	for w := range workers {
		go func() {
			tick := time.NewTicker(workers * time.Millisecond)
			defer tick.Stop()
			for i := w; i < n; i += workers {
				<-tick.C
				sent := time.Now()
				a := c.Get(path)
				answers <- answer{a.Status, sent, time.Now()}
			}
		}()
	}
	var r driven
	var firstSent, firstAnswer, lastSent, lastAnswer time.Time
	for i := range n {
		a := <-answers
		switch a.status {
		case http.StatusOK:
			r.allowed++
		case refused:
			r.denied++
		default:
			r.other++
		}
		if i == 0 {
			firstSent, firstAnswer, lastSent, lastAnswer = a.sent, a.answeredAt, a.sent, a.answeredAt
		}
		firstSent, firstAnswer = earlier(firstSent, a.sent), earlier(firstAnswer, a.answeredAt)
		if a.sent.After(lastSent) {
			lastSent = a.sent
		}
		if a.answeredAt.After(lastAnswer) {
			lastAnswer = a.answeredAt
		}
	}
	r.shortest, r.longest = lastSent.Sub(firstAnswer), lastAnswer.Sub(firstSent)
	return r
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// requireWithin requires a count of at least 98 % of one bound, and at most 102 % of another.
func requireWithin(t *testing.T, least, most float64, count int) {
	t.Helper()
	require.GreaterOrEqual(t, float64(count), 0.98*least)
	require.LessOrEqual(t, float64(count), 1.02*most)
}

// TestRateLimitsAreExactAtAThousandRequestsASecond counts what passes a token bucket: it holds 500
// requests, and gets 500 a second for as long as Envoy saw requests. How long that was lies between
// what the client measures at both ends, however slow the machine is.
func TestRateLimitsAreExactAtAThousandRequestsASecond(t *testing.T) {
	const rate, burst, sent = 500, 500, 5000
	rig := limitMesh(t)
	rig.runs("a gateway", `
targetRefs: [{group: networking.istio.io, kind: VirtualService, name: classic}]
local: {limits: [{match: {paths: [{prefix: /limited}]}, requests: 500, per: Second}]}
`, func(t *testing.T, m *limitRig, name string) {
		classic := m.Gateway("istio-ingress", 8081)
		m.counted(1, func() livemesh.Answer { return classic.Get("/limited") })
		r := drive(classic, "/limited", sent)
		require.Zero(t, r.other)
		require.NotZero(t, r.denied)
		t.Logf("%+v", r)
		requireWithin(t, burst+rate*r.shortest.Seconds(), burst+rate*r.longest.Seconds(), r.allowed)
		require.Equal(t, r.denied, m.stat("istio-ingress", "default/"+name+".http_local_rate_limit.enforced"))
	})
}

// TestIstiosSampleOfLocalRateLimits has Istio's sample as it is.
func TestIstiosSampleOfLocalRateLimits(t *testing.T) {
	text, err := os.ReadFile("testdata/istio-ratelimit/local-rate-limit-service.yaml")
	require.NoError(t, err)
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("productpage", "v1").HTTP(8000),
		livemesh.Service("productpage", "http:8000:8000"))+livemesh.File("sample.yaml", string(text)))
	m.RequireNoProblems()
	client := m.Client("client-v1")
	get := func(path string) livemesh.Answer { return client.Get("http://productpage:8000" + path) }
	var pages []livemesh.Answer
	m.Await("requests are counted", func() bool {
		if a := get("/productpage"); a.Header.Get("x-ratelimit-limit") != "" {
			pages = append(pages, a)
		}
		return len(pages) == 12
	})
	for i, a := range pages[:10] {
		requireStatus(t, 200, a)
		require.Empty(t, a.Header.Get("x-local-rate-limit"), i)
	}
	last := pages[11]
	requireStatus(t, refused, last)
	require.Equal(t, "true", last.Header.Get("x-local-rate-limit"))
	requireStatus(t, 200, get("/other"))
}
