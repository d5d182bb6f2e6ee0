package listener

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	otellogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// logFormat is Istio's default text format, which people's log pipelines parse.
const logFormat = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" ` +
	`%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% ` +
	`"%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% ` +
	`%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" ` +
	`"%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% ` +
	`%DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%` + "\n"

// logFields is Istio's default object of JSON.
const logFields = `{
	"start_time": "%START_TIME%",
	"route_name": "%ROUTE_NAME%",
	"method": "%REQ(:METHOD)%",
	"path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
	"protocol": "%PROTOCOL%",
	"response_code": "%RESPONSE_CODE%",
	"response_flags": "%RESPONSE_FLAGS%",
	"response_code_details": "%RESPONSE_CODE_DETAILS%",
	"connection_termination_details": "%CONNECTION_TERMINATION_DETAILS%",
	"bytes_received": "%BYTES_RECEIVED%",
	"bytes_sent": "%BYTES_SENT%",
	"duration": "%DURATION%",
	"upstream_service_time": "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
	"x_forwarded_for": "%REQ(X-FORWARDED-FOR)%",
	"user_agent": "%REQ(USER-AGENT)%",
	"request_id": "%REQ(X-REQUEST-ID)%",
	"authority": "%REQ(:AUTHORITY)%",
	"upstream_host": "%UPSTREAM_HOST%",
	"upstream_cluster": "%UPSTREAM_CLUSTER_RAW%",
	"upstream_local_address": "%UPSTREAM_LOCAL_ADDRESS%",
	"downstream_local_address": "%DOWNSTREAM_LOCAL_ADDRESS%",
	"downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%",
	"requested_server_name": "%REQUESTED_SERVER_NAME%",
	"upstream_transport_failure_reason": "%UPSTREAM_TRANSPORT_FAILURE_REASON%"
}`

// accessLog logs requests and connections.
func (c builder) accessLog() []*accesslogv3.AccessLog {
	var logs []*accesslogv3.AccessLog
	for _, of := range c.AccessLogs {
		name, config := logger(of)
		logs = append(logs, &accesslogv3.AccessLog{
			Name:       name,
			Filter:     logFilter(of.Filter),
			ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pb.Any(config)},
		})
	}
	return logs
}

// unmatchedLog logs what no filter chain takes, which no filter can: connections with the response
// flag NR.
func (c builder) unmatchedLog() []*accesslogv3.AccessLog {
	if c.NoListenerLog {
		return nil
	}
	logs := c.accessLog()
	for _, l := range logs {
		unmatched := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
			ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}},
		}}
		l.Filter = both(l.GetFilter(), unmatched)
	}
	return logs
}

// both logs what two filters take, of which the first may be nil.
func both(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	if a == nil {
		return b
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}

// logFilter logs what an expression in CEL is true for; nil for an empty one.
func logFilter(expression string) *accesslogv3.AccessLogFilter {
	if expression == "" {
		return nil
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
				TypedConfig: pb.Any(&celv3.ExpressionFilter{Expression: expression}),
			},
		},
	}}
}

func logger(of *model.AccessLog) (string, proto.Message) {
	switch of.Kind {
	case model.LogHTTP:
		return "envoy.access_loggers.http_grpc", &grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig:                    logService(of),
			AdditionalRequestHeadersToLog:   of.RequestHeaders,
			AdditionalResponseHeadersToLog:  of.ResponseHeaders,
			AdditionalResponseTrailersToLog: of.ResponseTrailers,
		}
	case model.LogTCP:
		return "envoy.access_loggers.tcp_grpc", &grpclogv3.TcpGrpcAccessLogConfig{CommonConfig: logService(of)}
	case model.LogOpenTelemetry:
		return "envoy.access_loggers.open_telemetry", openTelemetryLog(of)
	}
	return "envoy.access_loggers.file", &filelogv3.FileAccessLog{
		Path:            of.Path,
		AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: lineFormat(of)},
	}
}

// lineFormat is that of a file.
func lineFormat(of *model.AccessLog) *corev3.SubstitutionFormatString {
	format := &corev3.SubstitutionFormatString{OmitEmptyValues: of.OmitEmpty}
	if !of.AsJSON {
		format.Format = &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: textOf(of)},
		}}
		return format
	}
	text, fields := of.JSON, &structpb.Struct{}
	if text == "" {
		text = logFields
	}
	if err := fields.UnmarshalJSON([]byte(text)); err != nil {
		fields = &structpb.Struct{} // conversion has read it
	}
	format.Format = &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: fields}
	return format
}

func textOf(of *model.AccessLog) string {
	if of.Text == "" {
		return logFormat
	}
	return of.Text
}

// logService is a receiver of Envoy's AccessLogService. Envoy keeps up to 16 KiB of entries for it,
// and drops what comes beyond that while it is away.
func logService(of *model.AccessLog) *grpclogv3.CommonGrpcAccessLogConfig {
	return &grpclogv3.CommonGrpcAccessLogConfig{
		LogName:                 of.LogName,
		GrpcService:             logCluster(of),
		TransportApiVersion:     corev3.ApiVersion_V3,
		FilterStateObjectsToLog: of.FilterState,
	}
}

// logCluster calls the receiver's cluster, with an authority as in Istio.
func logCluster(of *model.AccessLog) *corev3.GrpcService {
	cluster := pb.OutboundCluster(of.Host, of.Port, "")
	return &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
			ClusterName: cluster, Authority: strings.ReplaceAll(cluster, "|", "_."),
		}},
	}
}

func openTelemetryLog(of *model.AccessLog) *otellogv3.OpenTelemetryAccessLogConfig {
	config := &otellogv3.OpenTelemetryAccessLogConfig{
		LogName:              of.LogName,
		GrpcService:          logCluster(of),
		DisableBuiltinLabels: true,
		Body:                 anyText(textOf(of)),
	}
	for _, a := range of.Attributes {
		if config.Attributes == nil {
			config.Attributes = &commonv1.KeyValueList{}
		}
		config.Attributes.Values = append(config.Attributes.Values, &commonv1.KeyValue{
			Key: a.Name, Value: anyText(a.Value),
		})
	}
	return config
}

func anyText(text string) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: text}}
}
