package features

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// skyWalkingMessages are those parts of SkyWalking's trace data protocol, version 3, that the test
// looks at. Types of spans are numbers here, and pairs of texts are tags.
const skyWalkingMessages = `
name: "tracing.proto" package: "skywalking.v3" syntax: "proto3"
message_type {
  name: "SegmentObject"
  field { name: "traceId" number: 1 type: TYPE_STRING }
  field { name: "traceSegmentId" number: 2 type: TYPE_STRING }
  field { name: "spans" number: 3 type: TYPE_MESSAGE type_name: ".skywalking.v3.SpanObject" label: LABEL_REPEATED }
  field { name: "service" number: 4 type: TYPE_STRING }
  field { name: "serviceInstance" number: 5 type: TYPE_STRING }
}
message_type {
  name: "SpanObject"
  field { name: "spanId" number: 1 type: TYPE_INT32 }
  field { name: "parentSpanId" number: 2 type: TYPE_INT32 }
  field { name: "refs" number: 5 type: TYPE_MESSAGE type_name: ".skywalking.v3.SegmentReference" label: LABEL_REPEATED }
  field { name: "operationName" number: 6 type: TYPE_STRING }
  field { name: "spanType" number: 8 type: TYPE_INT32 }
  field { name: "tags" number: 12 type: TYPE_MESSAGE type_name: ".skywalking.v3.Tag" label: LABEL_REPEATED }
}
message_type {
  name: "SegmentReference"
  field { name: "parentTraceSegmentId" number: 3 type: TYPE_STRING }
  field { name: "parentSpanId" number: 4 type: TYPE_INT32 }
}
message_type {
  name: "Tag"
  field { name: "key" number: 1 type: TYPE_STRING }
  field { name: "value" number: 2 type: TYPE_STRING }
}
`

// skySegment is what one Envoy did for one request. In Envoy's tracer a segment has two spans: the
// entry is the request that came, the exit the one that Envoy made for it.
type skySegment struct {
	TraceID, TraceSegmentID, Service, ServiceInstance string

	Spans []skySpan
}

type skySpan struct {
	SpanID, ParentSpanID int
	OperationName        string
	SpanType             int
	Refs                 []struct {
		ParentTraceSegmentID string
		ParentSpanID         int
	}
	Tags []struct{ Key, Value string }
}

// spanOf has an id that the segment is part of. The parent of a segment's first span is in another.
func (s skySegment) spanOf(sky skySpan) span {
	one := span{
		trace: s.TraceID, id: skyID(s.TraceSegmentID, sky.SpanID), kind: "ENTRY", name: sky.OperationName,
		service: s.Service, tags: map[string]string{},
	}
	if sky.SpanType == 1 {
		one.kind = "EXIT"
	}
	if sky.ParentSpanID >= 0 {
		one.parent = skyID(s.TraceSegmentID, sky.ParentSpanID)
	} else if len(sky.Refs) > 0 {
		one.parent = skyID(sky.Refs[0].ParentTraceSegmentID, sky.Refs[0].ParentSpanID)
	}
	for _, tag := range sky.Tags {
		one.tags[tag.Key] = tag.Value
	}
	return one
}

func skyID(segment string, span int) string { return fmt.Sprintf("%s.%d", segment, span) }

// skyWalking is an OAP of SkyWalking of which only the way in for traces is there.
func skyWalking(t *testing.T) (s *spans, port int) {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{}
	require.NoError(t, prototext.Unmarshal([]byte(skyWalkingMessages), file))
	described, err := protodesc.NewFile(file, nil)
	require.NoError(t, err)
	s = &spans{}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "skywalking.v3.TraceSegmentReportService",
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "collect", ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				return collectSegments(stream, described.Messages().ByName("SegmentObject"), s)
			},
		}},
	}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return s, listener.Addr().(*net.TCPAddr).Port
}

// collectSegments receives segments until the stream ends.
func collectSegments(stream grpc.ServerStream, described protoreflect.MessageDescriptor, to *spans) error {
	for {
		message := dynamicpb.NewMessage(described)
		if err := stream.RecvMsg(message); err != nil {
			return stream.SendMsg(&emptypb.Empty{})
		}
		text, err := protojson.Marshal(message)
		if err != nil {
			return err
		}
		var segment skySegment
		if err := json.Unmarshal(text, &segment); err != nil {
			return err
		}
		for _, one := range segment.Spans {
			to.add(segment.spanOf(one))
		}
	}
}

// sw8 is SkyWalking's header of a trace.
func sw8(trace string) livemesh.Option {
	text := base64.StdEncoding.EncodeToString
	return func(r *http.Request) {
		r.Header.Set("sw8", fmt.Sprintf("1-%s-%s-0-%s-%s-%s-%s", text([]byte(trace)), text([]byte("segment")),
			text([]byte("user")), text([]byte("user-0")), text([]byte("/")), text([]byte("client:80"))))
	}
}

// TestSpansReachSkyWalking has an OAP of SkyWalking as receiver. Each Envoy reports what came and
// what it called for that.
func TestSpansReachSkyWalking(t *testing.T) {
	s, port := skyWalking(t)
	m := livemesh.Start(t, bookinfo(t)+withTracing(fmt.Sprintf("skywalking: {service: oap.test, port: %d}", port))+
		livemesh.File("oap.yaml", grpcEntry("oap", port)))
	m.RequireNoProblems()
	const front = "client ENTRY > client EXIT > productpage ENTRY > productpage EXIT > productpage ENTRY > " +
		"productpage EXIT"
	whole := []string{
		front + " > details ENTRY > details EXIT",
		front + " > reviews ENTRY > reviews EXIT > reviews ENTRY > reviews EXIT > ratings ENTRY > ratings EXIT",
	}
	page(m, s, sw8, whole)

	entry := func(path string) []span {
		return s.find(func(one span) bool {
			return one.name == path && one.kind == "ENTRY" && one.service == "client-v1.default"
		})
	}
	m.Run("all requests are sampled", telemetryFor("all", `
tracing: [{randomSamplingPercentage: 100}]
`), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 200, m.Client("client-v1").Get("http://details:9080/details/7"))
		m.Await("the entry of the client's Envoy", func() bool { return len(entry("/details/7")) == 1 })
		require.Equal(t, "200", entry("/details/7")[0].tags["status_code"])
	})
	m.Run("no request is sampled", telemetryFor("none", `
tracing: [{randomSamplingPercentage: 0}]
`), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1")
		for range 20 {
			requireStatus(t, 200, client.Get("http://details:9080/details/404"))
		}
		page(m, s, sw8, whole) // later spans have come
		require.Empty(t, entry("/details/404"))
	})
}
