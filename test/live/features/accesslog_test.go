package features

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/stretchr/testify/require"
	otelv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

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

// collector receives access logs.
type collector struct {
	logv3.UnimplementedAccessLogServiceServer

	port int
	mu   sync.Mutex
	seen []string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.port = listener.Addr().(*net.TCPAddr).Port
	server := grpc.NewServer()
	logv3.RegisterAccessLogServiceServer(server, c)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.logs.v1.LogsService",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Export",
			Handler: func(
				_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
			) (any, error) {
				return c.export(decode)
			},
		}},
	}, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

func (c *collector) note(entry string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, entry)
}

func (c *collector) has(entry string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.seen, entry)
}

// StreamAccessLogs implements Envoy's AccessLogService.
func (c *collector) StreamAccessLogs(stream logv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, e := range message.GetHttpLogs().GetLogEntry() {
			c.note("http " + e.GetRequest().GetPath() + " " + e.GetRequest().GetRequestHeaders()["x-user"])
		}
		for _, e := range message.GetTcpLogs().GetLogEntry() {
			c.note("tcp " + e.GetCommonProperties().GetUpstreamCluster())
		}
	}
}

// export implements the method of OpenTelemetry's LogsService. Its request looks on the wire as
// LogsData does.
func (c *collector) export(decode func(any) error) (any, error) {
	data := &otelv1.LogsData{}
	if err := decode(data); err != nil {
		return nil, err
	}
	for _, resource := range data.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, r := range scope.GetLogRecords() {
				entry := "otel " + r.GetBody().GetStringValue()
				for _, a := range r.GetAttributes() {
					if a.GetKey() == "user" {
						entry += " " + a.GetValue().GetStringValue()
					}
				}
				c.note(entry)
			}
		}
	}
	return &emptypb.Empty{}, nil
}
