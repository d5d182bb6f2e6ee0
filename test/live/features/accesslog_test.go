package features

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestAccessLogsReachTheirProviders is what a mesh logs: to files, to Envoy's AccessLogService and
// to OpenTelemetry's.
func TestAccessLogsReachTheirProviders(t *testing.T) {
	received, dir := newCollector(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	m := livemesh.Start(t, meshWithLogs("[json, http, tcp, otel, dead]", fmt.Sprintf(`
- name: json
  envoyFileAccessLog:
    path: %s
    logFormat: {labels: {path: "%%REQ(:PATH)%%", code: "%%RESPONSE_CODE%%", cluster: "%%UPSTREAM_CLUSTER_RAW%%"}}
- name: http
  envoyHttpAls: {service: collector.test, port: %d, additionalRequestHeadersToLog: [x-user]}
- name: tcp
  envoyTcpAls: {service: collector.test, port: %[2]d}
- name: otel
  envoyOtelAls:
    service: collector.test
    port: %[2]d
    logFormat: {text: "%%REQ(:PATH)%% %%RESPONSE_CODE%%", labels: {user: "%%REQ(x-user)%%"}}
- name: dead
  envoyHttpAls: {service: dead.test, port: 9}
`, file("json"), received.port))+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1").TCP(7000),
		livemesh.Service("web", "http:80:8080", "tcp:7000"),
		grpcEntry("collector", received.port), grpcEntry("dead", 9),
	))
	m.RequireNoProblems()
	requireStatus(t, 200, m.Client("client-v1").Get("http://web/logged", livemesh.Header("x-user", "ann")))
	_, err := line(m, "client-v1", 7000, "hello")
	require.NoError(t, err)

	m.Await("lines of the client and of the server", func() bool {
		return slices.Contains(pathsIn(t, file("json")), "/logged outbound|80||web.default.svc.cluster.local") &&
			slices.Contains(pathsIn(t, file("json")), "/logged inbound|8080||")
	})
	m.Await("entries about requests", func() bool { return received.has("http /logged ann") })
	m.Await("entries about connections", func() bool {
		return received.has("tcp outbound|7000||web.default.svc.cluster.local")
	})
	m.Await("records of OpenTelemetry", func() bool { return received.has("otel /logged 200 ann") })
}

// TestAccessLogsSayWhyARouteIsClosed: strangers at a gateway are not told in the body.
func TestAccessLogsSayWhyARouteIsClosed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	m := livemesh.Start(t, meshWithLogs("[file]", fmt.Sprintf(`
- name: file
  envoyFileAccessLog:
    path: %s
    logFormat: {labels: {path: "%%REQ(:PATH)%%", cluster: "%%METADATA(ROUTE:lateen:closed)%%"}}
`, file))+livemesh.File("base.yaml",
		livemesh.GatewayPod(8080), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.Object("Gateway public", `
selector: {istio: ingress}
servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: [closed.test]}]
`), livemesh.Object("VirtualService closed", `
hosts: [closed.test]
gateways: [public]
http:
- match: [{uri: {prefix: /closed}, headers: {x-secret: {regex: "("}}}]
  route: [{destination: {host: web}}]
- route: [{destination: {host: web}}]
`)))
	for path, status := range map[string]int{"/closed": 503, "/open": 200} {
		requireStatus(t, status, m.Gateway("istio-ingress", 8080).Get(path, livemesh.Host("closed.test")))
	}
	m.Await("lines of both requests", func() bool {
		lines := pathsIn(t, file)
		return slices.Contains(lines, "/open ") && slices.ContainsFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "/closed ") && strings.Contains(line, `headers["x-secret"].regex`)
		})
	})
}

// TestLogsGoToTheMeshsAccessLogService is enableEnvoyAccessLogService, from before there were
// providers.
func TestLogsGoToTheMeshsAccessLogService(t *testing.T) {
	received := newCollector(t)
	m := livemesh.Start(t, livemesh.File("mesh.yaml", fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    enableEnvoyAccessLogService: true
    defaultConfig: {envoyAccessLogService: {address: "als.collector.test:%d"}}
`, received.port))+livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"),
		livemesh.Service("web", "http:80:8080"), grpcEntry("als.collector", received.port)))
	m.RequireNoProblems()
	requireStatus(t, 200, m.Client("client-v1").Get("http://web/logged"))
	m.Await("entries about requests", func() bool { return received.has("http /logged ") })
}

// TestCollectorsThatAreAwayDelayNothing has receivers that nobody knows, that refuse and that do
// not answer. More entries come than Envoy keeps.
func TestCollectorsThatAreAwayDelayNothing(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	port := silent.Addr().(*net.TCPAddr).Port
	m := livemesh.Start(t, meshWithLogs("[unknown, refusing, silent, silent-otel]", fmt.Sprintf(`
- {name: unknown, envoyHttpAls: {service: unknown.test, port: 80}}
- {name: refusing, envoyOtelAls: {service: refusing.test, port: 9}}
- {name: silent, envoyHttpAls: {service: silent.test, port: %d}}
- {name: silent-otel, envoyOtelAls: {service: silent.test, port: %[1]d}}
`, port))+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		grpcEntry("refusing", 9), grpcEntry("silent", port),
	))
	client, large := m.Client("client-v1"), livemesh.Header("user-agent", strings.Repeat("a", 4096))
	for range 200 {
		requireStatus(t, 200, client.Get("http://web/", large))
	}
	stats := m.Admin("client-v1", "/stats?filter=access_logs.grpc_access_log.logs_dropped")
	require.Regexp(t, `logs_dropped: [1-9]`, stats)
}

// meshWithLogs is a mesh configuration with providers of access logs, of which some are in force.
func meshWithLogs(inForce, providers string) string {
	return livemesh.File("mesh.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    defaultProviders: {accessLogging: `+inForce+`}
    extensionProviders:`+strings.ReplaceAll(providers, "\n", "\n    ")+"\n")
}

// grpcEntry is a ServiceEntry for a server of gRPC on this machine.
func grpcEntry(name string, port int) string {
	return livemesh.Object("ServiceEntry "+name, fmt.Sprintf(`
hosts: [%s.test]
ports: [{number: %d, name: grpc, protocol: GRPC}]
resolution: STATIC
endpoints: [{address: 127.0.0.1}]
`, name, port))
}

// pathsIn are the paths and clusters of a log in JSON, whose last line may be under way.
func pathsIn(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	var found []string
	for _, l := range lines[:len(lines)-1] {
		var entry struct{ Path, Cluster string }
		require.NoError(t, json.Unmarshal([]byte(l), &entry), l)
		found = append(found, entry.Path+" "+entry.Cluster)
	}
	return found
}

// TestTelemetriesForOneSideAndOneWorkload: an entry for called workloads alone leaves callers to
// accessLogFile, and of two Telemetries that select a workload both are in force.
func TestTelemetriesForOneSideAndOneWorkload(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	const format = `logFormat: {labels: {path: "%REQ(:PATH)%", cluster: "%UPSTREAM_CLUSTER_RAW%"}}`
	m := livemesh.Start(t, livemesh.File("mesh.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    accessLogFile: `+file("legacy")+`
    accessLogEncoding: JSON
    accessLogFormat: '{"path": "%REQ(:PATH)%", "cluster": "%UPSTREAM_CLUSTER_RAW%"}'
    defaultProviders: {accessLogging: [default]}
    extensionProviders:
    - name: default
      envoyFileAccessLog: {path: `+file("default")+`, `+format+`}
    - name: other
      envoyFileAccessLog: {path: `+file("other")+`, `+format+`}
`)+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
	)+telemetryFor("server", "\naccessLogging: [{match: {mode: SERVER}}]\n"))
	m.RequireNoProblems()
	const caller, called = "/one outbound|80||web.default.svc.cluster.local", "/one inbound|8080||"
	requireStatus(t, 200, m.Client("client-v1").Get("http://web/one"))
	m.Await("the caller's line, and that of the called workload", func() bool {
		legacy, usual := pathsIn(t, file("legacy")), pathsIn(t, file("default"))
		return slices.Contains(legacy, caller) && slices.Contains(usual, called)
	})
	require.NotContains(t, pathsIn(t, file("default")), caller)
	require.NotContains(t, pathsIn(t, file("legacy")), called)

	m.Apply(telemetryFor("a", `
selector: {matchLabels: {app: web}}
accessLogging: [{providers: [{name: other}]}]
`) + telemetryFor("b", `
selector: {matchLabels: {app: web}}
accessLogging: [{filter: {expression: "request.url_path != '/hidden'"}}]
`))
	m.AwaitProblem("spec.selector", "both are in force")
	for _, path := range []string{"/first", "/hidden", "/two"} { // the first ends the connection to the old listener
		requireStatus(t, 200, m.Client("client-v1").Get("http://web"+path))
	}
	m.Await("the line of what the filter takes", func() bool {
		return slices.Contains(pathsIn(t, file("other")), "/two inbound|8080||")
	})
	require.NotContains(t, pathsIn(t, file("other")), "/hidden inbound|8080||")
}
