package features

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/stretchr/testify/require"
	otelv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// collector receives access logs, and spans by OpenTelemetry.
type collector struct {
	logv3.UnimplementedAccessLogServiceServer

	port int
	mu   sync.Mutex
	seen []string
	spans
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.port = listener.Addr().(*net.TCPAddr).Port
	server := grpc.NewServer()
	logv3.RegisterAccessLogServiceServer(server, c)
	exports(server, "logs.v1.LogsService", c.export)
	exports(server, "trace.v1.TraceService", c.exportSpans)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

// exports serves the one method of a service of OpenTelemetry, whose messages have the wire form of
// those that go into files.
func exports(server *grpc.Server, service string, export func(decode func(any) error) (any, error)) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector." + service,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Export",
			Handler: func(
				_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
			) (any, error) {
				return export(decode)
			},
		}},
	}, nil)
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

// exportSpans implements the method of OpenTelemetry's TraceService.
func (c *collector) exportSpans(decode func(any) error) (any, error) {
	data := &tracev1.TracesData{}
	if err := decode(data); err != nil {
		return nil, err
	}
	for _, resource := range data.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				one := span{
					trace: hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()),
					parent: hex.EncodeToString(s.GetParentSpanId()), name: s.GetName(), service: service,
					kind: strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"), tags: map[string]string{},
				}
				for _, a := range s.GetAttributes() {
					one.tags[a.GetKey()] = a.GetValue().GetStringValue()
				}
				c.add(one)
			}
		}
	}
	return &emptypb.Empty{}, nil
}

// export implements the method of OpenTelemetry's LogsService.
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
