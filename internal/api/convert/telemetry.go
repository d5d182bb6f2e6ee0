package convert

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/wrapperspb"
	mesh "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	telemetryv1 "istio.io/client-go/pkg/apis/telemetry/v1"

	"github.com/lateen-mesh/lateen/internal/api/cel"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// What providers are for.
const (
	ofLogs    = "access logs"
	ofTraces  = "traces"
	ofMetrics = "metrics"
)

// notMeant is what becomes of an entry with a mistake.
const notMeant = "; this entry has no effect"

// telemetry converts a Telemetry. An entry with a mistake is left out.
func (r *reader) telemetry(in *telemetryv1.Telemetry) []Object {
	spec := &in.Spec
	p := path("spec")
	out := &model.Telemetry{Meta: r.meta}
	selection, usable := r.selection(p, spec)
	out.Selection = selection
	for i, entry := range spec.GetAccessLogging() {
		at, start := p.dot("accessLogging").at(i), r.mark()
		if rule := r.logRule(at, entry); r.failure(start, at) == "" {
			out.AccessLogs = append(out.AccessLogs, rule)
		}
	}
	for i, entry := range spec.GetTracing() {
		out.Tracing = append(out.Tracing, r.tracingRule(p.dot("tracing").at(i), entry))
	}
	for i, entry := range spec.GetMetrics() {
		out.Metrics = append(out.Metrics, r.metricsRule(p.dot("metrics").at(i), entry))
	}
	r.tooManyTags(p.dot("metrics"), out)
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{out}
}

// modeOf reads the side of calls that an entry is for.
func (r *reader) modeOf(p path, in telemetry.WorkloadMode) model.WorkloadMode {
	switch in {
	case telemetry.WorkloadMode_CLIENT_AND_SERVER:
		return model.ClientAndServer
	case telemetry.WorkloadMode_CLIENT:
		return model.ClientMode
	case telemetry.WorkloadMode_SERVER:
		return model.ServerMode
	default:
		r.fail(p.dot("mode"), in, "is no mode; CLIENT_AND_SERVER is in force", "CLIENT, SERVER or CLIENT_AND_SERVER")
		return model.ClientAndServer
	}
}

func (r *reader) logRule(p path, in *telemetry.AccessLogging) model.LogRule {
	out := model.LogRule{
		Mode:     r.modeOf(p.dot("match"), in.GetMatch().GetMode()),
		Inherits: len(in.GetProviders()) == 0,
		Disabled: in.GetDisabled().GetValue(),
	}
	for i, ref := range in.GetProviders() {
		at := slices.IndexFunc(r.mesh.LogProviders, func(p model.LogProvider) bool { return p.Name == ref.GetName() })
		if at < 0 {
			r.noProvider(p.dot("providers").at(i), ref.GetName(), ofLogs)
			continue
		}
		out.Providers = append(out.Providers, r.mesh.LogProviders[at])
	}
	if filter := in.GetFilter(); filter != nil {
		out.Filter = filter.GetExpression()
		if err := cel.Check(out.Filter); err != nil {
			const want = `an expression in CEL that Envoy takes, as "response.code >= 400"`
			r.fail(p.dot("filter.expression"), out.Filter, err.Error()+notMeant, want)
		}
	}
	return out
}

// noProvider reports a name that is of no provider that an entry can use.
func (r *reader) noProvider(p path, name, of string) {
	is := "is no provider of extensionProviders"
	switch {
	case slices.ContainsFunc(r.mesh.LogProviders, func(p model.LogProvider) bool { return p.Name == name }):
		is = "is a provider of access logs, not of " + of
	case r.tracer(name) != nil:
		is = "is a provider of traces, not of " + of
	case slices.ContainsFunc(r.mesh.ExtAuthz, func(a *model.ExtAuthz) bool { return a.Name == name }):
		is = "is an external authorizer, not a provider of " + of
	case name == defaultProvider || slices.Contains(r.mesh.PrometheusProviders, name):
		is = "is a provider of metrics, not of " + of
	}
	then := notMeant
	if of == ofTraces {
		then = "; calls are not traced"
	}
	r.fail(p.dot("name"), name, is+then, r.providersOf(of))
}

// providersOf names the providers that there are.
func (r *reader) providersOf(of string) string {
	var names []string
	switch of {
	case ofLogs:
		for _, p := range r.mesh.LogProviders {
			names = append(names, p.Name)
		}
	case ofTraces:
		for _, t := range r.mesh.Tracers {
			names = append(names, t.Name)
		}
	default:
		names = append([]string{defaultProvider}, r.mesh.PrometheusProviders...)
	}
	const most = 5
	if len(names) == 0 || len(names) > most {
		return fmt.Sprintf("the name of one of extensionProviders for %s", of)
	}
	return fmt.Sprintf("a provider of %s: %s", of, strings.Join(names, ", "))
}

func (r *reader) tracer(name string) *model.Tracer {
	at := slices.IndexFunc(r.mesh.Tracers, func(t *model.Tracer) bool { return t.Name == name })
	if at < 0 {
		return nil
	}
	return r.mesh.Tracers[at]
}

// tracingRule reads an entry about traces. An unknown provider traces nothing, as in Istio.
func (r *reader) tracingRule(p path, in *telemetry.Tracing) model.TracingRule {
	out := model.TracingRule{
		Mode:           r.modeOf(p.dot("match"), in.GetMatch().GetMode()),
		Inherits:       len(in.GetProviders()) == 0,
		Disabled:       choice(in.GetDisableSpanReporting()),
		Tags:           r.traceTags(p.dot("customTags"), in.GetCustomTags()),
		KeepsRequestID: inverse(in.GetUseRequestIdForTraceSampling()),
		IstioTags:      choice(in.GetEnableIstioTags()),
		NoContext:      choice(in.GetDisableContextPropagation()),
	}
	none := r.mesh.Tracing.Tracer == nil && len(r.mesh.Tracers) == 0
	if out.Inherits && none && !in.GetDisableSpanReporting().GetValue() {
		r.warn(p.dot("providers"), nil,
			"is empty, and the mesh has no provider of traces, so that calls are not traced",
			"one of extensionProviders for traces, and its name here or in defaultProviders")
	}
	for i, ref := range in.GetProviders() {
		at := p.dot("providers").at(i)
		if i > 0 {
			r.warn(at.dot("name"), ref.GetName(), "is not used: spans go to the first provider", "one provider")
		} else if out.Tracer = r.tracer(ref.GetName()); out.Tracer == nil {
			r.noProvider(at, ref.GetName(), ofTraces)
		}
	}
	if sampling := in.GetRandomSamplingPercentage(); sampling != nil {
		out.Sampling = r.sampling(p.dot("randomSamplingPercentage"), sampling.GetValue())
	}
	return out
}

func choice(v *wrapperspb.BoolValue) *bool {
	if v == nil {
		return nil
	}
	is := v.GetValue()
	return &is
}

func inverse(v *wrapperspb.BoolValue) *bool {
	is := choice(v)
	if is != nil {
		*is = !*is
	}
	return is
}

// sampling reads a percentage; nil for one that is none.
func (r *reader) sampling(p path, percent float64) *uint32 {
	if !(percent >= 0 && percent <= 100) {
		r.fail(p, percent, "is no percentage; it has no effect", "a number from 0 to 100")
		return nil
	}
	parts := uint32(percent*model.SamplePercent + 0.5)
	return &parts
}

func (r *reader) traceTags(p path, in map[string]*telemetry.Tracing_CustomTag) []model.TraceTag {
	var out []model.TraceTag
	for _, name := range sortedKeys(in) {
		tag := model.TraceTag{Name: name}
		switch of := in[name].GetType().(type) {
		case *telemetry.Tracing_CustomTag_Literal:
			tag.Value = of.Literal.GetValue()
		case *telemetry.Tracing_CustomTag_Environment:
			tag.Source = model.TagEnvironment
			tag.Key, tag.Value = of.Environment.GetName(), of.Environment.GetDefaultValue()
		case *telemetry.Tracing_CustomTag_Header:
			tag.Source = model.TagHeader
			tag.Key, tag.Value = of.Header.GetName(), of.Header.GetDefaultValue()
		case *telemetry.Tracing_CustomTag_Formatter:
			tag.Source, tag.Value = model.TagFormat, of.Formatter.GetValue()
		}
		if r.checkTag(p.key(name), &tag) {
			out = append(out, tag)
		}
	}
	return out
}

// checkTag reports a tag for which Envoy would refuse a listener. It is left out.
func (r *reader) checkTag(p path, tag *model.TraceTag) bool {
	const leftOut = "; the tag is left out"
	start := r.mark()
	switch {
	case tag.Name == "":
		r.fail(p, "", "has no name"+leftOut, "a name for the tag")
	case tag.Source == model.TagLiteral && tag.Value == "":
		r.fail(p, nil, "has no value"+leftOut, "a literal, an environment variable, a header or a formatter")
	case tag.Source == model.TagFormat && tag.Value == "":
		r.fail(p.dot("formatter.value"), "", "is empty"+leftOut, `a format string as "%REQ(:PATH)%"`)
	case tag.Source == model.TagFormat:
		r.isLogFormat(p.dot("formatter.value"), tag.Value)
	case tag.Source == model.TagEnvironment && tag.Key == "":
		r.fail(p.dot("environment.name"), "", "is empty"+leftOut, "the name of an environment variable of the proxy")
	case tag.Source == model.TagHeader && !isToken(strings.TrimPrefix(tag.Key, ":")):
		r.fail(p.dot("header.name"), tag.Key, "is no name of a header"+leftOut, wantHeader)
	}
	return r.failure(start, p) == ""
}

// prometheusProviders returns the names that stand for Prometheus beside its own, sorted.
func prometheusProviders(in *mesh.MeshConfig) []string {
	var names []string
	for _, provider := range in.GetExtensionProviders() {
		if name := provider.GetName(); provider.GetPrometheus() != nil && name != "" && name != defaultProvider {
			names = append(names, name)
		}
	}
	return sorted(names)
}
