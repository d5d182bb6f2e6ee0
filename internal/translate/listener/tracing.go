package listener

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
	detectorsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/resource_detectors/v3"
	tagv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// Names of spans. Istio puts them into each route. These are format strings in listeners, so that
// routes are the same whether calls are traced or not.
const (
	// servedName is "reviews.default.svc.cluster.local/*", by the host of the service that a
	// request is sent to.
	servedName = "%CEL(xds.cluster_metadata.filter_metadata.istio.services[0].host)%/*"
	// spanHeader tells a called workload of the mesh the name of the caller's span. Its Envoy takes
	// it for its own one.
	spanHeader = "x-envoy-decorator-operation"
)

// spanName is the name of spans of calls that the workload makes. It is empty for calls that the
// workload takes.
func (c builder) spanName() string {
	if c.reporter == proxystats.Destination {
		return ""
	}
	return servedName
}

// takenName is the name of a span of a call to a port of the workload, whose caller tells no name.
func (c builder) takenName(port string) *routev3.Decorator {
	if c.Tracing.Tracer == nil {
		return nil
	}
	return &routev3.Decorator{Operation: "*:" + port + "/*", Propagate: wrapperspb.Bool(false)}
}

// traceTimeout is how long a report by HTTP may take where nothing is set, as in Istio.
const traceTimeout = 5 * time.Second

// istioTags say whose span it is. Their values are those of the proxy's environment, so that
// workloads of one class share their listeners. They are sorted.
var istioTags = []model.TraceTag{
	{Name: "istio.canonical_revision", Source: model.TagEnvironment, Key: "CANONICAL_REVISION", Value: "latest"},
	{Name: "istio.canonical_service", Source: model.TagEnvironment, Key: "CANONICAL_SERVICE", Value: "unknown"},
	{Name: "istio.cluster_id", Source: model.TagEnvironment, Key: "ISTIO_META_CLUSTER_ID", Value: "unknown"},
	{Name: "istio.mesh_id", Source: model.TagEnvironment, Key: "ISTIO_META_MESH_ID", Value: "unknown"},
	{Name: "istio.namespace", Source: model.TagEnvironment, Key: "POD_NAMESPACE", Value: "default"},
}

// trace sets how the requests of a connection manager are traced.
func (c builder) trace(m *hcmv3.HttpConnectionManager) {
	t := c.Tracing
	if t.Tracer == nil {
		return
	}
	m.Tracing = &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling:       &typev3.Percent{Value: 100},
		RandomSampling:       &typev3.Percent{Value: float64(t.Sampling) / model.SamplePercent},
		OverallSampling:      &typev3.Percent{Value: 100},
		CustomTags:           traceTags(t),
		Provider:             tracer(t.Tracer),
		Operation:            c.spanName(),
		NoContextPropagation: t.NoContext,
	}
	if t.Tracer.Kind == model.TraceSkyWalking {
		m.Tracing.SpawnUpstreamSpan = wrapperspb.Bool(true)
	}
	if length := cmp.Or(t.Tracer.MaxPathLength, t.MaxPathLength); length != 0 {
		m.Tracing.MaxPathTagLength = wrapperspb.UInt32(length)
	}
	if t.KeepsRequestID {
		m.RequestIdExtension = &hcmv3.RequestIDExtension{TypedConfig: pb.Any(&uuidv3.UuidRequestIdConfig{
			UseRequestIdForTraceSampling: wrapperspb.Bool(false),
		})}
	}
}

// traceTags are sorted by name. A tag of Telemetries comes in the place of Istio's.
func traceTags(t model.Tracing) []*tagv3.CustomTag {
	tags := slices.Clone(t.Tags)
	for _, own := range istioTags {
		named := func(o model.TraceTag) bool { return o.Name == own.Name }
		if !t.NoIstioTags && !slices.ContainsFunc(t.Tags, named) {
			tags = append(tags, own)
		}
	}
	slices.SortFunc(tags, func(a, b model.TraceTag) int { return strings.Compare(a.Name, b.Name) })
	var out []*tagv3.CustomTag
	for _, tag := range tags {
		out = append(out, traceTag(tag))
	}
	return out
}

func traceTag(of model.TraceTag) *tagv3.CustomTag {
	tag := &tagv3.CustomTag{Tag: of.Name}
	switch of.Source {
	case model.TagEnvironment:
		tag.Type = &tagv3.CustomTag_Environment_{
			Environment: &tagv3.CustomTag_Environment{Name: of.Key, DefaultValue: of.Value},
		}
	case model.TagHeader:
		tag.Type = &tagv3.CustomTag_RequestHeader{
			RequestHeader: &tagv3.CustomTag_Header{Name: of.Key, DefaultValue: of.Value},
		}
	case model.TagFormat:
		tag.Type = &tagv3.CustomTag_Value{Value: of.Value}
	default:
		tag.Type = &tagv3.CustomTag_Literal_{Literal: &tagv3.CustomTag_Literal{Value: of.Value}}
	}
	return tag
}

func tracer(of *model.Tracer) *tracev3.Tracing_Http {
	var name string
	var config proto.Message
	switch of.Kind {
	case model.TraceZipkin:
		name, config = "envoy.tracers.zipkin", zipkin(of)
	case model.TraceDatadog:
		name, config = "envoy.tracers.datadog", &tracev3.DatadogConfig{
			CollectorCluster:  pb.OutboundCluster(of.Host, of.Port, ""),
			CollectorHostname: string(of.Host),
			ServiceName:       "envoy", // DD_SERVICE of the environment comes before it
		}
	case model.TraceSkyWalking:
		name, config = "envoy.tracers.skywalking", &tracev3.SkyWalkingConfig{GrpcService: traceCluster(of)}
	default:
		name, config = "envoy.tracers.opentelemetry", openTelemetry(of)
	}
	return &tracev3.Tracing_Http{
		Name: name, ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: pb.Any(config)},
	}
}

func zipkin(of *model.Tracer) *tracev3.ZipkinConfig {
	config := &tracev3.ZipkinConfig{
		CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
		TraceId_128Bit:           !of.ShortIDs,
		SharedSpanContext:        wrapperspb.Bool(false),
		CollectorService:         traceAPI(of, string(of.Host)),
	}
	if of.AlsoW3C {
		config.TraceContextOption = tracev3.ZipkinConfig_USE_B3_WITH_W3C_PROPAGATION
	}
	return config
}

// openTelemetry names no service: OTEL_RESOURCE_ATTRIBUTES of the environment says whose spans they
// are, so that workloads of one class share their listeners.
func openTelemetry(of *model.Tracer) *tracev3.OpenTelemetryConfig {
	config := &tracev3.OpenTelemetryConfig{
		ResourceDetectors: []*corev3.TypedExtensionConfig{{
			Name:        "envoy.tracers.opentelemetry.resource_detectors.environment",
			TypedConfig: pb.Any(&detectorsv3.EnvironmentResourceDetectorConfig{}),
		}},
	}
	if of.ByHTTP {
		config.HttpService = traceAPI(of, net.JoinHostPort(string(of.Host), strconv.Itoa(int(of.Port))))
	} else {
		config.GrpcService = traceCluster(of)
	}
	return config
}

// traceAPI is a receiver by HTTP, which is called by an authority.
func traceAPI(of *model.Tracer, authority string) *corev3.HttpService {
	timeout := of.Timeout
	if timeout == 0 {
		timeout = traceTimeout
	}
	service := &corev3.HttpService{HttpUri: &corev3.HttpUri{
		Uri: "http://" + authority + of.Path,
		HttpUpstreamType: &corev3.HttpUri_Cluster{
			Cluster: pb.OutboundCluster(of.Host, of.Port, ""),
		},
		Timeout: pb.Duration(timeout),
	}}
	for _, h := range of.Headers {
		service.RequestHeadersToAdd = append(service.RequestHeadersToAdd, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: h.Name, Value: h.Value.Text()},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return service
}

func traceCluster(of *model.Tracer) *corev3.GrpcService {
	service := &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
			ClusterName: pb.OutboundCluster(of.Host, of.Port, ""), Authority: string(of.Host),
		}},
	}
	if of.Timeout > 0 {
		service.Timeout = pb.Duration(of.Timeout)
	}
	for _, h := range of.Headers {
		value := &corev3.HeaderValue{Key: h.Name, Value: h.Value.Text()}
		service.InitialMetadata = append(service.InitialMetadata, value)
	}
	return service
}
