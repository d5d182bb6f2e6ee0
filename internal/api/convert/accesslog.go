package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// accessLogs reads where proxies log while no Telemetry says so: defaultProviders.accessLogging, or
// accessLogFile where that names no provider.
func (r *reader) accessLogs(p path, in *mesh.MeshConfig, out *model.MeshConfig) {
	legacy := r.meshLog(p, in)
	known := r.logProviders(p.dot("extensionProviders"), in.GetExtensionProviders(), legacy)
	out.LogProviders = nil
	for _, name := range sortedKeys(known) {
		log := r.pools.accessLogs.Canonical(known[name])
		out.LogProviders = append(out.LogProviders, model.LogProvider{Name: name, Log: log})
	}
	names := in.GetDefaultProviders().GetAccessLogging()
	for i, name := range names {
		found := slices.IndexFunc(out.LogProviders, func(p model.LogProvider) bool { return p.Name == name })
		if found < 0 {
			r.fail(
				p.dot("defaultProviders.accessLogging").at(i), name,
				"is no provider of access logs; nothing is logged to it",
				"the name of one of extensionProviders with envoyFileAccessLog, envoyHttpAls, envoyTcpAls or "+
					"envoyOtelAls, or "+model.BuiltinLog,
			)
			continue
		}
		one := out.LogProviders[found]
		if !slices.Contains(out.DefaultLogs, one) {
			out.DefaultLogs = append(out.DefaultLogs, one)
		}
		if !slices.Contains(out.AccessLogs, one.Log) {
			out.AccessLogs = append(out.AccessLogs, one.Log)
		}
	}
	out.LegacyLogs = r.legacyLogs(p, in, legacy)
	if len(out.AccessLogs) == 0 {
		out.AccessLogs = out.LegacyLogs
	}
}

// legacyLogs reads accessLogFile and enableEnvoyAccessLogService. They count where neither default
// providers nor Telemetries do.
func (r *reader) legacyLogs(p path, in *mesh.MeshConfig, form model.AccessLog) []*model.AccessLog {
	var logs []*model.AccessLog
	if in.GetAccessLogFile() != "" {
		form.Path = in.GetAccessLogFile()
		logs = append(logs, r.pools.accessLogs.Canonical(&form))
	}
	if in.GetEnableEnvoyAccessLogService() {
		at := p.dot("defaultConfig.envoyAccessLogService.address")
		logs = append(logs, r.serviceLogs(at, in.GetDefaultConfig().GetEnvoyAccessLogService())...)
	}
	return logs
}

// serviceLogs are those of enableEnvoyAccessLogService: of requests and of connections.
func (r *reader) serviceLogs(p path, in *mesh.RemoteService) []*model.AccessLog {
	host, port, ok := r.serviceAddress(p, in.GetAddress(), "nothing is logged to it")
	if !ok {
		return nil
	}
	requests := model.AccessLog{Kind: model.LogHTTP, Host: host, Port: port, LogName: httpLogName}
	connections := model.AccessLog{Kind: model.LogTCP, Host: host, Port: port, LogName: tcpLogName}
	return []*model.AccessLog{
		r.pools.accessLogs.Canonical(&requests), r.pools.accessLogs.Canonical(&connections),
	}
}

// Istio's names of logs that go to Envoy's AccessLogService.
const (
	httpLogName = "http_envoy_accesslog"
	tcpLogName  = "tcp_envoy_accesslog"
)

// meshLog reads the form of access logs that the mesh configuration sets. A wrong one leaves
// Istio's.
func (r *reader) meshLog(p path, in *mesh.MeshConfig) model.AccessLog {
	out := model.AccessLog{Path: model.StandardOutput}
	at, format := p.dot("accessLogFormat"), in.GetAccessLogFormat()
	switch in.GetAccessLogEncoding() {
	case mesh.MeshConfig_TEXT:
		out.Text = r.logText(at, format)
	case mesh.MeshConfig_JSON:
		out.AsJSON = true
		if format == "" {
			break
		}
		fields := &structpb.Struct{}
		if err := fields.UnmarshalJSON([]byte(format)); err != nil {
			r.fail(
				at, nil, "cannot be read as JSON; Istio's format is in force", `an object as {"path": "%REQ(:PATH)%"}`,
			)
			break
		}
		out.JSON = r.logFields(at, fields)
	default:
		r.fail(
			p.dot("accessLogEncoding"), in.GetAccessLogEncoding(), "is no encoding; TEXT is in force", "TEXT or JSON",
		)
	}
	return out
}

// logProviders reads the providers of access logs by name. One with a mistake is left out.
func (r *reader) logProviders(
	p path, in []*mesh.MeshConfig_ExtensionProvider, form model.AccessLog,
) map[string]*model.AccessLog {
	known := map[string]*model.AccessLog{model.BuiltinLog: &form}
	named := map[string]bool{}
	for i, provider := range in {
		at, start := p.at(i), r.mark()
		log := r.logProvider(at, provider, form)
		if log == nil {
			continue
		}
		name := provider.GetName()
		switch {
		case name == "":
			r.fail(at.dot("name"), "", "is empty", "a name that others can give")
		case named[name]:
			r.fail(at.dot("name"), name, "is the name of another one, which comes first", "a name of its own")
		}
		if named[name] {
			continue
		}
		named[name] = true
		delete(known, name)
		if r.failure(start, at) == "" {
			known[name] = log
		}
	}
	return known
}

// logProvider reads a provider of access logs, and returns nil for one of anything else.
func (r *reader) logProvider(
	p path, in *mesh.MeshConfig_ExtensionProvider, form model.AccessLog,
) *model.AccessLog {
	switch {
	case in.GetEnvoyFileAccessLog() != nil:
		file := in.GetEnvoyFileAccessLog()
		if in.GetName() == model.BuiltinLog && file.GetLogFormat() == nil {
			form.Path, form.OmitEmpty = cmp.Or(file.GetPath(), model.StandardOutput), file.GetOmitEmptyValues()
			return &form
		}
		return r.fileLog(p.dot("envoyFileAccessLog"), file)
	case in.GetEnvoyHttpAls() != nil:
		at, als := p.dot("envoyHttpAls"), in.GetEnvoyHttpAls()
		out := r.logService(at, als)
		out.Kind, out.LogName = model.LogHTTP, cmp.Or(als.GetLogName(), httpLogName)
		out.FilterState = als.GetFilterStateObjectsToLog()
		out.RequestHeaders = r.logHeaders(
			at.dot("additionalRequestHeadersToLog"), als.GetAdditionalRequestHeadersToLog(),
		)
		out.ResponseHeaders = r.logHeaders(
			at.dot("additionalResponseHeadersToLog"), als.GetAdditionalResponseHeadersToLog(),
		)
		out.ResponseTrailers = r.logHeaders(
			at.dot("additionalResponseTrailersToLog"), als.GetAdditionalResponseTrailersToLog(),
		)
		return out
	case in.GetEnvoyTcpAls() != nil:
		als := in.GetEnvoyTcpAls()
		out := r.logService(p.dot("envoyTcpAls"), als)
		out.Kind, out.LogName = model.LogTCP, cmp.Or(als.GetLogName(), tcpLogName)
		out.FilterState = als.GetFilterStateObjectsToLog()
		return out
	case in.GetEnvoyOtelAls() != nil:
		return r.openTelemetryLog(p.dot("envoyOtelAls"), in.GetEnvoyOtelAls())
	}
	return nil
}

func (r *reader) fileLog(p path, in *mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider) *model.AccessLog {
	out := &model.AccessLog{Path: cmp.Or(in.GetPath(), model.StandardOutput), OmitEmpty: in.GetOmitEmptyValues()}
	format, at := in.GetLogFormat(), p.dot("logFormat")
	out.Text = r.logText(at.dot("text"), format.GetText())
	if labels := format.GetLabels(); labels != nil {
		out.AsJSON = true
		if len(labels.GetFields()) > 0 {
			out.JSON = r.logFields(at.dot("labels"), labels)
		}
	}
	return out
}

func (r *reader) openTelemetryLog(
	p path, in *mesh.MeshConfig_ExtensionProvider_EnvoyOpenTelemetryLogProvider,
) *model.AccessLog {
	out := r.logService(p, in)
	out.Kind, out.LogName = model.LogOpenTelemetry, cmp.Or(in.GetLogName(), "otel_envoy_accesslog")
	format, at := in.GetLogFormat(), p.dot("logFormat")
	if text := format.GetText(); r.isLogFormat(at.dot("text"), text) {
		out.Text = text
	}
	fields := format.GetLabels().GetFields()
	for _, key := range sortedKeys(fields) {
		text, isText := fields[key].GetKind().(*structpb.Value_StringValue)
		if !isText {
			r.fail(at.dot("labels").key(key), nil, "is no text", `a format string as "%REQ(:PATH)%"`)
			continue
		}
		if r.isLogFormat(at.dot("labels").key(key), text.StringValue) {
			out.Attributes = append(out.Attributes, model.Header{Name: key, Value: text.StringValue})
		}
	}
	return out
}

// logService reads where a receiver is.
func (r *reader) logService(p path, in interface {
	GetService() string
	GetPort() uint32
},
) *model.AccessLog {
	out := &model.AccessLog{}
	out.Host, out.Port = r.providerAddress(p, in.GetService(), in.GetPort())
	return out
}

// logHeaders reads names of headers.
func (r *reader) logHeaders(p path, in []string) []string {
	var out []string
	for i, name := range in {
		out = append(out, r.headerName(p.at(i), name))
	}
	return out
}

// logText reads the line of a log. Each entry is a line, as in Istio.
func (r *reader) logText(p path, text string) string {
	if text == "" || !r.isLogFormat(p, text) {
		return ""
	}
	return strings.TrimSuffix(text, "\n") + "\n"
}

// logFields reads the object that is written for an entry, as JSON; empty for a wrong one.
func (r *reader) logFields(p path, in *structpb.Struct) string {
	if !r.areLogFields(p, structpb.NewStructValue(in), maxLogDepth) {
		return ""
	}
	text, err := json.Marshal(in.AsMap()) // sorts the keys
	if err != nil {
		r.fail(p, nil, fmt.Sprintf("cannot be written as JSON: %v", err), "texts, numbers and objects")
	}
	return string(text)
}

// maxLogDepth is how deep objects and lists of a log may be nested. Envoy cannot decode messages of
// 100 levels, of which each of these takes three.
const maxLogDepth = 10

func (r *reader) areLogFields(p path, v *structpb.Value, depth int) bool {
	ok := depth > 0
	if !ok {
		r.fail(p, nil, "is nested too deep", fmt.Sprintf("at most %d levels", maxLogDepth))
		return false
	}
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		ok = r.isLogFormat(p, kind.StringValue)
	case *structpb.Value_StructValue:
		for _, key := range sortedKeys(kind.StructValue.GetFields()) {
			ok = r.areLogFields(p.key(key), kind.StructValue.GetFields()[key], depth-1) && ok
		}
	case *structpb.Value_ListValue:
		for i, item := range kind.ListValue.GetValues() {
			ok = r.areLogFields(p.at(i), item, depth-1) && ok
		}
	case *structpb.Value_NumberValue, *structpb.Value_BoolValue:
	default:
		r.fail(p, nil, "is null", "a text, a number, or an object")
		ok = false
	}
	return ok
}

// isLogFormat reports whether Envoy takes a format string; else it would refuse every listener.
func (r *reader) isLogFormat(p path, text string) bool {
	mistake := logFormatMistake(text)
	if mistake != "" {
		r.fail(p, text, mistake, `text with operators of Envoy's access logs, as "%REQ(:PATH)% %RESPONSE_CODE%"`)
	}
	return mistake == ""
}
