package features

import (
	"bufio"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// meshSettings is a file with a mesh configuration.
func meshSettings(settings string) string {
	return livemesh.File("mesh.yaml", "apiVersion: v1\nkind: ConfigMap\n"+
		"metadata: {name: istio, namespace: istio-system}\ndata:\n  mesh: |\n    "+
		strings.ReplaceAll(strings.TrimSpace(settings), "\n", "\n    ")+"\n")
}

// TestTheMeshsTrafficPolicyHoldsWhereNoRuleSpeaks is defaultTrafficPolicy. A DestinationRule that
// says something of connections says all of it.
func TestTheMeshsTrafficPolicyHoldsWhereNoRuleSpeaks(t *testing.T) {
	server := newRecorder(t)
	m := livemesh.Start(t, meshSettings(`
defaultTrafficPolicy:
  connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1}}
tcpKeepalive: {probes: 9, time: 600s}
`)+livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), server.entry("narrow.test")))
	m.RequireNoProblems()
	client := m.Client("client-v1")
	requireStatus(t, 200, client.Get("http://narrow.test/first")) // while a connection is made, its request waits
	require.Contains(t, m.Admin("client-v1", "/config_dump?resource=dynamic_active_clusters"), `"keepalive_time": 600`)

	const sent = 5
	release := make(chan struct{})
	server.answers(func(http.ResponseWriter, *http.Request) bool { <-release; return false })
	answers := make(chan livemesh.Answer, sent)
	send := func() {
		for range sent {
			go func() { answers <- client.Get("http://narrow.test/held") }()
		}
	}
	send()
	for range sent - 2 { // one has the connection, another waits for it
		a := <-answers
		requireStatus(t, 503, a)
		require.Contains(t, a.Body, "overflow")
	}
	close(release)
	requireStatus(t, 200, <-answers)
	requireStatus(t, 200, <-answers)

	m.Write("rule.yaml", rule("narrow", `
host: narrow.test
trafficPolicy: {connectionPool: {tcp: {maxConnections: 100}}}
`))
	m.Await("no limit", func() bool {
		release = make(chan struct{})
		send()
		time.AfterFunc(100*time.Millisecond, func() { close(release) })
		all := true
		for range sent {
			all = (<-answers).OK() && all
		}
		return all
	})
}

// TestTheMeshNamesClustersInStatistics is inboundClusterStatName and outboundClusterStatName.
func TestTheMeshNamesClustersInStatistics(t *testing.T) {
	m := livemesh.Start(t, meshSettings(`
inboundClusterStatName: "in_%SERVICE%_%SERVICE_PORT_NAME%_%TARGET_PORT%"
outboundClusterStatName: "out_%SERVICE_FQDN%_%SERVICE_PORT%_%SUBSET_NAME%"
`)+livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1").TCP(7000),
		livemesh.Service("web", "http:80:8080", "tcp:7000"))+rule("web", `
host: web
subsets: [{name: v1, labels: {version: v1}}]
`)+virtual("web", "hosts: [web]\nhttp: [{route: ["+subset("v1")+"]}]\n"))
	m.RequireNoProblems()
	requireStatus(t, 200, m.Client("client-v1").Get("http://web/"))
	conn := m.Dial("client-v1", 7000)
	_, err := conn.Write([]byte("hello\n"))
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, line)
	for workload, names := range map[string][]string{
		"client-v1": {
			"cluster.out_web.default.svc.cluster.local_80_v1;.upstream_rq_total",
			"cluster.out_web.default.svc.cluster.local_7000_;.upstream_cx_total",
			"tcp.out_web.default.svc.cluster.local_7000_.downstream_cx_total",
		},
		"web-v1": {
			"cluster.in_web.default_http_8080;.upstream_rq_total",
			"cluster.in_web.default_tcp_7000;.upstream_cx_total",
			"tcp.in_web.default_tcp_7000.downstream_cx_total",
		},
	} {
		stats := m.Admin(workload, "/stats?usedonly&filter=(in|out)_web")
		for _, name := range names {
			require.Regexp(t, regexp.QuoteMeta(name)+": [1-9]", stats, workload)
		}
	}
}

// TestAServerMaySpeakFirstAfterTheTimeOfDetection is protocolDetectionTimeout: a port that does not
// say what it speaks is looked at for that long, and carries bytes then.
func TestAServerMaySpeakFirstAfterTheTimeOfDetection(t *testing.T) {
	m := livemesh.Start(t, meshSettings("protocolDetectionTimeout: 200ms")+livemesh.File("base.yaml",
		livemesh.NewEcho("web", "v1").TCP(7000), livemesh.Service("web", "unnamed:7000", "http:80:8080")))
	m.RequireNoProblems()
	conn := m.DialPod("web-v1", 7000)
	m.Await("the connection to the workload, before a byte of the client", func() bool {
		return strings.Contains(m.Admin("web-v1", "/stats?filter=inbound"), "tcp.inbound|7000||.downstream_cx_total: 1")
	})
	_, err := conn.Write([]byte("hello\n"))
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, line)
}

// TestConnectionSettingsOfEdges is connectionSettings: the profile EDGE closes a gateway to what
// backends read in different ways, and leaves sidecars alone. What a Pod says comes first.
func TestConnectionSettingsOfEdges(t *testing.T) {
	const templates, config = "inject.istio.io/templates: gateway", `proxy.istio.io/config: "connectionSettings: ` +
		`{httpHeadersWithUnderscoresAction: HEADERS_WITH_UNDERSCORES_DROP_HEADER}"`
	own := strings.Replace(livemesh.GatewayPod(8080), templates, templates+", "+config, 1)
	own = strings.ReplaceAll(own, "name: istio-ingress", "name: own-ingress")
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.GatewayPod(8080), own, livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"), baseRoute()))
	odd, base := livemesh.Header("a_b", "c"), livemesh.Host("base.test")
	requireStatus(t, 200, m.Gateway("istio-ingress", 8080).Get("/", base, odd))

	m.Run("EDGE", meshSettings("defaultConfig: {connectionSettings: {profile: EDGE}}"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			gateway := m.Gateway("istio-ingress", 8080)
			m.Await("headers with underscores are refused", func() bool {
				return gateway.Get("/", base, odd).Status == 400
			})
			requireStatus(t, 200, gateway.Get("/", base))
			answer := gateway.Get("/", base, livemesh.RawPath("/a%2Fb"))
			requireStatus(t, 307, answer)
			require.Equal(t, "/a/b", answer.Header.Get("location"))
			dropped := m.Gateway("own-ingress", 8080).Get("/", base, odd)
			requireStatus(t, 200, dropped)
			require.Empty(t, dropped.Echoed.Headers.Values("a_b"))
			inside := m.Client("client-v1").Get("http://web/", odd)
			requireStatus(t, 200, inside)
			require.Equal(t, []string{"c"}, inside.Echoed.Headers.Values("a_b"))
		})
}
