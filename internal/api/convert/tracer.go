package convert

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// zipkinPath is that of Zipkin's API.
const zipkinPath = "/api/v2/spans"

// tracers reads the providers of traces, sorted by name. One with a mistake is left out.
func (r *reader) tracers(p path, in []*mesh.MeshConfig_ExtensionProvider) []*model.Tracer {
	var out []*model.Tracer
	for i, provider := range in {
		at, start := p.at(i), r.mark()
		read := r.tracerOf(at, provider)
		if read == nil {
			continue
		}
		read.Name = provider.GetName()
		switch {
		case read.Name == "":
			r.fail(at.dot("name"), "", "is empty", "a name that others can give")
		case slices.ContainsFunc(out, func(o *model.Tracer) bool { return o.Name == read.Name }):
			r.fail(at.dot("name"), read.Name, "is the name of another one, which comes first", "a name of its own")
		}
		if r.failure(start, at) == "" {
			out = append(out, r.pools.tracers.Canonical(read))
		}
	}
	slices.SortFunc(out, func(a, b *model.Tracer) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// tracerOf reads a provider of traces, and returns nil for one of anything else.
func (r *reader) tracerOf(p path, in *mesh.MeshConfig_ExtensionProvider) *model.Tracer {
	switch {
	case in.GetOpentelemetry() != nil:
		return r.openTelemetryTracer(p.dot("opentelemetry"), in.GetOpentelemetry())
	case in.GetZipkin() != nil:
		at, zipkin := p.dot("zipkin"), in.GetZipkin()
		out := r.traceService(at, zipkin)
		out.Kind, out.MaxPathLength = model.TraceZipkin, zipkin.GetMaxTagLength()
		out.ShortIDs = zipkin.GetEnable_64BitTraceId()
		out.Path = cmp.Or(r.tracePath(at.dot("path"), zipkin.GetPath()), zipkinPath)
		out.Timeout = r.duration(at.dot("timeout"), zipkin.GetTimeout())
		out.Headers = r.traceHeaders(at.dot("headers"), zipkin.GetHeaders(), formatMistake)
		switch option := zipkin.GetTraceContextOption(); option {
		case mesh.MeshConfig_ExtensionProvider_ZipkinTracingProvider_USE_B3:
		case mesh.MeshConfig_ExtensionProvider_ZipkinTracingProvider_USE_B3_WITH_W3C_PROPAGATION:
			out.AlsoW3C = true
		default:
			r.fail(at.dot("traceContextOption"), option, "is no option", "USE_B3 or USE_B3_WITH_W3C_PROPAGATION")
		}
		return out
	case in.GetDatadog() != nil:
		out := r.traceService(p.dot("datadog"), in.GetDatadog())
		out.Kind, out.MaxPathLength = model.TraceDatadog, in.GetDatadog().GetMaxTagLength()
		return out
	case in.GetSkywalking() != nil:
		out := r.traceService(p.dot("skywalking"), in.GetSkywalking())
		out.Kind = model.TraceSkyWalking
		return out
	}
	return nil
}

func (r *reader) openTelemetryTracer(
	p path, in *mesh.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider,
) *model.Tracer {
	out := r.traceService(p, in)
	out.Kind, out.MaxPathLength = model.TraceOpenTelemetry, in.GetMaxTagLength()
	if http := in.GetHttp(); http != nil {
		at := p.dot("http")
		out.ByHTTP, out.Path = true, cmp.Or(r.tracePath(at.dot("path"), http.GetPath()), "/")
		out.Timeout = r.duration(at.dot("timeout"), http.GetTimeout())
		out.Headers = r.traceHeaders(at.dot("headers"), http.GetHeaders(), formatMistake)
		return out
	}
	at := p.dot("grpc")
	out.Timeout = r.duration(at.dot("timeout"), in.GetGrpc().GetTimeout())
	out.Headers = r.traceHeaders(at.dot("initialMetadata"), in.GetGrpc().GetInitialMetadata(), literalMistake)
	return out
}

// traceService reads where a receiver is.
func (r *reader) traceService(p path, in interface {
	GetService() string
	GetPort() uint32
},
) *model.Tracer {
	out := &model.Tracer{}
	out.Host, out.Port = r.providerAddress(p, in.GetService(), in.GetPort())
	return out
}

func (r *reader) tracePath(p path, text string) string {
	if text == "" || strings.HasPrefix(text, "/") && !hasControl(text) && !strings.ContainsAny(text, " #") {
		return text
	}
	r.fail(p, text, "is no path", `a path as "/v1/traces"`)
	return ""
}

// traceHeaders reads headers for reports. Istio takes envName from the environment of istiod, which
// Lateen has nothing to do with. Messages do not show values, which may be credentials.
func (r *reader) traceHeaders(
	p path, in []*mesh.MeshConfig_ExtensionProvider_HttpHeader, mistake func(value string) (text, want string),
) []model.SecretHeader {
	var out []model.SecretHeader
	for i, h := range in {
		at := p.at(i)
		name := r.headerName(at.dot("name"), h.GetName())
		if h.GetEnvName() != "" {
			r.fail(at.dot("envName"), h.GetEnvName(), notYet,
				`value, by HTTP with "`+ofTheProxy+`NAME)%" for one of the proxy`)
			continue
		}
		text, want := mistake(h.GetValue())
		if hasControl(h.GetValue()) {
			text, want = "has characters that no header has", "text"
		}
		if text != "" {
			r.fail(at.dot("value"), nil, text, want)
			continue
		}
		out = append(out, model.SecretHeader{Name: name, Value: model.NewSensitive(h.GetValue())})
	}
	return out
}

// ofTheProxy begins the operator of Envoy for a variable of its environment.
const ofTheProxy = "%ENVIRONMENT("

// formatMistake says why Envoy would refuse listeners for the value of a header by HTTP, which is a
// format string.
func formatMistake(value string) (text, want string) {
	if logFormatMistake(value) == "" {
		return "", ""
	}
	return "has a percent sign that begins no operator of Envoy",
		`"%%" for a percent sign, or "` + ofTheProxy + `NAME)%" for a variable of the proxy`
}

// literalMistake says why the value of a header by gRPC cannot be meant: Envoy sends it as it is.
func literalMistake(value string) (text, want string) {
	if !strings.Contains(value, ofTheProxy) {
		return "", ""
	}
	return "names a variable, which Envoy fills in by HTTP alone", "http in the place of grpc"
}

// tracing reads how calls are traced while no Telemetry says so: by the first of
// defaultProviders.tracing, or by the tracer of defaultConfig.
func (r *reader) tracing(p path, in *mesh.MeshConfig, out *model.MeshConfig) {
	out.Tracers = r.tracers(p.dot("extensionProviders"), in.GetExtensionProviders())
	at, config := p.dot("defaultConfig.tracing"), in.GetDefaultConfig().GetTracing()
	out.Tracing.MaxPathLength = config.GetMaxPathTagLength()
	if config.GetSampling() != 0 {
		set := r.sampling(at.dot("sampling"), config.GetSampling())
		if set != nil {
			out.Tracing.Sampling = *set
		}
	}
	out.Tracing.Tags = r.configTags(at.dot("customTags"), config.GetCustomTags())
	names := in.GetDefaultProviders().GetTracing()
	for i, name := range names {
		where := p.dot("defaultProviders.tracing").at(i)
		found := slices.IndexFunc(out.Tracers, func(t *model.Tracer) bool { return t.Name == name })
		switch {
		case i > 0:
			r.warn(where, name, "is not used: spans go to the first provider", "one provider")
		case found < 0:
			r.fail(
				where, name, "is no provider of traces; nothing is traced",
				"the name of one of extensionProviders with opentelemetry, zipkin, datadog or skywalking",
			)
		default:
			out.Tracing.Tracer = out.Tracers[found]
		}
	}
	if len(names) == 0 && in.GetEnableTracing() {
		out.Tracing.Tracer = r.legacyTracer(at, config)
		out.LegacyTracer = out.Tracing.Tracer != nil
		out.Tracing.NoIstioTags = config.GetEnableIstioTags() != nil && !config.GetEnableIstioTags().GetValue()
	}
}

// legacyTracer reads the tracer of defaultConfig, which is an address and no provider.
func (r *reader) legacyTracer(p path, in *mesh.Tracing) *model.Tracer {
	switch {
	case in.GetZipkin() != nil:
		tracer := model.Tracer{Kind: model.TraceZipkin, Path: zipkinPath}
		return r.tracerAt(p.dot("zipkin.address"), in.GetZipkin().GetAddress(), tracer)
	case in.GetDatadog() != nil:
		return r.tracerAt(
			p.dot("datadog.address"), in.GetDatadog().GetAddress(), model.Tracer{Kind: model.TraceDatadog},
		)
	}
	return nil
}

// tracerAt returns a tracer at an address, "zipkin.istio-system:9411".
func (r *reader) tracerAt(p path, address string, tracer model.Tracer) *model.Tracer {
	var ok bool
	if tracer.Host, tracer.Port, ok = r.serviceAddress(p, address, "nothing is traced"); !ok {
		return nil
	}
	return r.pools.tracers.Canonical(&tracer)
}

// serviceAddress reads the address of a receiver. It has to be that of a service that proxies know:
// no cluster is made for it.
func (r *reader) serviceAddress(p path, address, otherwise string) (host model.Host, port uint16, ok bool) {
	const want = `a service with its port, as "zipkin.istio-system.svc.cluster.local:9411"`
	name, text, err := net.SplitHostPort(address)
	number, wrong := strconv.ParseUint(text, 10, 16)
	if err != nil || wrong != nil || number == 0 || hostMistake(name, false) != "" {
		r.fail(p, address, "is no address of a service; "+otherwise, want)
		return "", 0, false
	}
	return r.serviceHost(name), uint16(number), true
}

// serviceHost returns the host of a service by a name that Pods of the root namespace resolve.
func (r *reader) serviceHost(name string) model.Host {
	defaults := &r.converter.defaults
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	switch {
	case len(labels) == 2:
		return model.Resolve(labels[0], labels[1], defaults.Domain)
	case len(labels) == 3 && labels[2] == "svc":
		return model.Resolve(labels[0], labels[1], defaults.Domain)
	}
	return model.Resolve(strings.Join(labels, "."), defaults.RootNamespace, defaults.Domain)
}

// configTags reads the tags of defaultConfig.
func (r *reader) configTags(p path, in map[string]*mesh.Tracing_CustomTag) []model.TraceTag {
	var out []model.TraceTag
	for _, name := range sortedKeys(in) {
		tag := model.TraceTag{Name: name}
		switch of := in[name].GetType().(type) {
		case *mesh.Tracing_CustomTag_Literal:
			tag.Value = of.Literal.GetValue()
		case *mesh.Tracing_CustomTag_Environment:
			tag.Source = model.TagEnvironment
			tag.Key, tag.Value = of.Environment.GetName(), of.Environment.GetDefaultValue()
		case *mesh.Tracing_CustomTag_Header:
			tag.Source = model.TagHeader
			tag.Key, tag.Value = of.Header.GetName(), of.Header.GetDefaultValue()
		}
		if r.checkTag(p.key(name), &tag) {
			out = append(out, tag)
		}
	}
	return out
}
