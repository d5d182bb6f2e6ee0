package features

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/stretchr/testify/require"
	otelv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	plaintext "google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/lateen-mesh/lateen/internal/agent/meshstats"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// meteredMesh is a client and a server whose proxies keep metrics.
func meteredMesh(t *testing.T, files string) *livemesh.Mesh {
	t.Helper()
	return livemesh.StartWith(t, livemesh.Options{Metrics: true}, files+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1").TCP(7000),
		livemesh.Service("web", "http:80:8080", "tcp:7000"),
	))
}

// istioMetrics are the lines of a proxy's metrics as Prometheus gets them, without buckets.
func istioMetrics(t *testing.T, m *livemesh.Mesh, workload string) []string {
	t.Helper()
	var text strings.Builder
	w := meshstats.NewWriter(&text, meshstats.Self{Workload: proxystats.Workload{Name: workload}})
	_, err := io.Copy(w, strings.NewReader(m.Admin(workload, "/stats/prometheus")))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Zero(t, w.Dropped())
	return slices.DeleteFunc(strings.Split(text.String(), "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "istio_") || strings.Contains(line, "_bucket{")
	})
}

// hasMetric waits for a line with all of some texts.
func hasMetric(t *testing.T, m *livemesh.Mesh, workload string, texts ...string) string {
	t.Helper()
	found := ""
	m.Await(fmt.Sprintf("a metric of %s with %q", workload, texts), func() bool {
		for _, line := range istioMetrics(t, m, workload) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// TestTelemetriesChangeMetrics disables metrics, and sets and removes tags, for one side of calls.
func TestTelemetriesChangeMetrics(t *testing.T) {
	m := meteredMesh(t, telemetryFor("changes", `
metrics:
- providers: [{name: prometheus}]
  overrides:
  - match: {metric: REQUEST_COUNT, mode: CLIENT}
    tagOverrides:
      method: {value: request.method}
      port: {value: string(destination.port)}
      destination_service: {value: "request.host + ''"}
      absent: {value: "request.headers['x-absent']"}
      source_principal: {operation: REMOVE}
      response_flags: {operation: REMOVE}
  - match: {metric: REQUEST_SIZE}
    disabled: true
  - match: {metric: REQUEST_COUNT, mode: SERVER}
    disabled: true
  - match: {metric: TCP_OPENED_CONNECTIONS, mode: SERVER}
    disabled: true
`))
	m.RequireNoProblems()
	requireStatus(t, 200, m.Client("client-v1").Get("http://web/"))
	_, err := line(m, "client-v1", 7000, "hello")
	require.NoError(t, err)

	const toWeb = `destination_service_name="web"`
	counted := hasMetric(t, m, "client-v1", "istio_requests_total{", `method="GET"`, `absent="unknown"`, toWeb, "} 1")
	require.Contains(t, counted, `destination_service="unknown"`, "texts are not put together")
	require.NotContains(t, counted, "source_principal")
	require.NotContains(t, counted, "response_flags")
	duration := hasMetric(t, m, "client-v1", "istio_request_duration_milliseconds_count{", toWeb, "} 1")
	require.NotContains(t, duration, "method=")
	require.Contains(t, duration, `response_flags="-"`)
	hasMetric(t, m, "client-v1", "istio_tcp_connections_opened_total{")
	hasMetric(t, m, "web-v1", "istio_request_duration_milliseconds_count{")
	hasMetric(t, m, "web-v1", "istio_tcp_connections_closed_total{")
	for workload, names := range map[string][]string{
		"client-v1": {"istio_request_bytes"},
		"web-v1":    {"istio_request_bytes", "istio_requests_total", "istio_tcp_connections_opened_total"},
	} {
		for _, of := range istioMetrics(t, m, workload) {
			if workload == "web-v1" && !strings.Contains(of, `reporter="destination"`) {
				continue
			}
			for _, name := range names {
				require.NotRegexp(t, "^"+name+`(_sum|_count)?\{`, of, workload)
			}
		}
	}

	m.Run("no metrics of one workload", telemetryFor("none", `
selector: {matchLabels: {app: client}}
metrics: [{overrides: [{disabled: true}]}]
`), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 200, m.Client("client-v1").Get("http://web/"))
		const statistics = `"` + proxystats.Prefix + `"`
		m.Await("listeners without statistics, once those before have drained", func() bool {
			return !strings.Contains(m.Admin("client-v1", "/config_dump"), statistics)
		})
		require.Contains(t, m.Admin("web-v1", "/config_dump"), statistics)
	})
}

// TestMessagesOfGRPC are counted where a Telemetry asks for it.
func TestMessagesOfGRPC(t *testing.T) {
	c := newCollector(t)
	m := meteredMesh(t, livemesh.File("collector.yaml", grpcEntry("collector", c.port))+telemetryFor("messages", `
metrics:
- overrides:
  - match: {metric: GRPC_REQUEST_MESSAGES}
    disabled: false
    tagOverrides: {path: {value: request.path}}
  - match: {metric: GRPC_RESPONSE_MESSAGES}
    disabled: false
`))
	m.RequireNoProblems()
	conn, err := grpc.NewClient("passthrough:///collector.test:"+strconv.Itoa(c.port),
		grpc.WithTransportCredentials(plaintext.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return m.Dial("client-v1", local.HTTPProxyPort), nil
		}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := logv3.NewAccessLogServiceClient(conn).StreamAccessLogs(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, stream.Send(&logv3.StreamAccessLogsMessage{}))
	}
	_, err = stream.CloseAndRecv()
	require.Equal(t, codes.Unknown, status.Code(err), "the receiver ends the stream")
	const unary = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	require.NoError(t, conn.Invoke(t.Context(), unary, &otelv1.LogsData{}, &emptypb.Empty{}))

	hasMetric(t, m, "client-v1", "istio_request_messages_total{", "StreamAccessLogs", "} 3")
	hasMetric(t, m, "client-v1", "istio_request_messages_total{", "LogsService/Export", "} 1")
	hasMetric(t, m, "client-v1", "istio_response_messages_total{", `grpc_response_status="0"`, "} 1")
}

// TestLabelsAreBounded has clients choose the values of a tag.
func TestLabelsAreBounded(t *testing.T) {
	m := meteredMesh(t, telemetryFor("users", `
selector: {matchLabels: {app: client}}
metrics:
- overrides:
  - match: {metric: REQUEST_COUNT}
    tagOverrides: {user: {value: "request.headers['x-user']"}}
`))
	m.RequireNoProblems()
	client := m.Client("client-v1")
	requireStatus(t, 200, client.Get("http://web/", livemesh.Header("x-user", strings.Repeat("x", 50<<10))))
	for n := range proxystats.MaxStats + 50 {
		user := fmt.Sprintf("%d%s", n, strings.Repeat("y", 1000))
		requireStatus(t, 200, client.Get("http://web/", livemesh.Header("x-user", user)))
	}
	users := 0
	of := regexp.MustCompile(`user="([^"]*)"`)
	for _, line := range istioMetrics(t, m, "client-v1") {
		if value := of.FindStringSubmatch(line); strings.HasPrefix(line, "istio_requests_total{") && value != nil {
			users++
			require.LessOrEqual(t, len(value[1]), 128)
		}
	}
	require.LessOrEqual(t, users, proxystats.MaxStats)
	require.Greater(t, users, proxystats.MaxStats/2)
	require.Regexp(t, `envoy_server_stats_overflow_counter\{\} [1-9]`, m.Admin("client-v1", "/stats/prometheus"))
}

// TestFiltersOfAccessLogs hold for requests and for connections, with metrics beside them. What
// Envoy would not take is told, and changes nothing.
func TestFiltersOfAccessLogs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	m := meteredMesh(t, livemesh.File("mesh.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    extensionProviders:
    - name: file
      envoyFileAccessLog: {path: `+file+`, logFormat: {text: "%REQ(:PATH)% %RESPONSE_CODE% %UPSTREAM_CLUSTER_RAW%"}}
`)+telemetryFor("errors", `
selector: {matchLabels: {app: client}}
accessLogging: [{providers: [{name: file}], filter: {expression: "response.code >= 400"}}]
`))
	m.RequireNoProblems()
	client := m.Client("client-v1")
	requireStatus(t, 200, client.Get("http://web/fine"))
	_, err := line(m, "client-v1", 7000, "hello")
	require.NoError(t, err)
	requireStatus(t, 503, client.Get("http://web/status/503"))
	logged := func() string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.ReplaceAll(string(text), "- 400 -\n", "") // what livemesh asks proxies
	}
	const failed = "/status/503 503 outbound|80||web.default.svc.cluster.local\n"
	m.Await("the line of the error", func() bool { return strings.Contains(logged(), failed) })
	require.Equal(t, failed, logged())

	m.Apply(telemetryFor("errors", `
selector: {matchLabels: {app: client}}
accessLogging:
- {providers: [{name: file}], filter: {expression: "response.code >="}}
- {providers: [{name: nobody}]}
metrics: [{overrides: [{tagOverrides: {a: {value: "nofunc()"}}}]}]
`))
	for _, path := range []string{
		"spec.accessLogging[0].filter.expression", "spec.accessLogging[1].providers[0].name",
		`spec.metrics[0].overrides[0].tagOverrides["a"].value`,
	} {
		m.AwaitProblem(path)
	}
	requireStatus(t, 200, client.Get("http://web/after"))
	require.Equal(t, failed, logged())
}
