package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/cel"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

const (
	// tagStays is what becomes of a tag with a mistake.
	tagStays = "; the tag stays as it is"
	// ownTag is the one that carries Istio's standard tags in Envoy, and boundTag that of the
	// buckets of histograms.
	ownTag, boundTag = "fields", "le"
	// messagesTag has the numbers of messages of gRPC.
	messagesTag = "messages"
)

// tagName is what Prometheus takes as the name of a label.
var tagName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,127}$`)

// metricOf returns the set of a metric of Istio's API.
func metricOf(of telemetry.MetricSelector_IstioMetric) (set model.MetricSet, known bool) {
	switch of {
	case telemetry.MetricSelector_ALL_METRICS:
		return model.AllMetrics, true
	case telemetry.MetricSelector_REQUEST_COUNT:
		return model.RequestCount.Set(), true
	case telemetry.MetricSelector_REQUEST_DURATION:
		return model.RequestDuration.Set(), true
	case telemetry.MetricSelector_REQUEST_SIZE:
		return model.RequestSize.Set(), true
	case telemetry.MetricSelector_RESPONSE_SIZE:
		return model.ResponseSize.Set(), true
	case telemetry.MetricSelector_TCP_OPENED_CONNECTIONS:
		return model.TCPOpened.Set(), true
	case telemetry.MetricSelector_TCP_CLOSED_CONNECTIONS:
		return model.TCPClosed.Set(), true
	case telemetry.MetricSelector_TCP_SENT_BYTES:
		return model.TCPSent.Set(), true
	case telemetry.MetricSelector_TCP_RECEIVED_BYTES:
		return model.TCPReceived.Set(), true
	case telemetry.MetricSelector_GRPC_REQUEST_MESSAGES:
		return model.RequestMessages.Set(), true
	case telemetry.MetricSelector_GRPC_RESPONSE_MESSAGES:
		return model.ResponseMessages.Set(), true
	}
	return 0, false
}

func (r *reader) metricsRule(p path, in *telemetry.Metrics) model.MetricsRule {
	out := model.MetricsRule{Inherits: len(in.GetProviders()) == 0}
	if interval := in.GetReportingInterval(); interval != nil {
		r.warn(
			p.dot("reportingInterval"), interval.AsDuration(),
			"is not used: the bytes of a connection are counted when it ends", "no interval",
		)
	}
	for i, ref := range in.GetProviders() {
		if name := ref.GetName(); name == defaultProvider || slices.Contains(r.mesh.PrometheusProviders, name) {
			out.Prometheus = true
		} else {
			r.noProvider(p.dot("providers").at(i), name, ofMetrics)
		}
	}
	if len(in.GetProviders())+len(in.GetOverrides()) == 0 {
		r.warn(p, nil, "says nothing, so that it has no effect", "providers or overrides")
	}
	for i, override := range in.GetOverrides() {
		if override.GetDisabled() == nil && len(override.GetTagOverrides()) == 0 {
			r.warn(
				p.dot("overrides").at(i), nil, "changes nothing, so that it has no effect", "disabled or tagOverrides",
			)
		}
		if o := r.metricOverride(p.dot("overrides").at(i), override); o.Metrics != 0 {
			out.Overrides = append(out.Overrides, o)
		}
	}
	return out
}

func (r *reader) metricOverride(p path, in *telemetry.MetricsOverrides) model.MetricOverride {
	out := model.MetricOverride{
		Metrics:  model.AllMetrics,
		Mode:     r.modeOf(p.dot("match"), in.GetMatch().GetMode()),
		Disabled: choice(in.GetDisabled()),
		Tags:     r.metricTags(p.dot("tagOverrides"), in.GetTagOverrides()),
	}
	switch of := in.GetMatch().GetMetricMatch().(type) {
	case *telemetry.MetricSelector_CustomMetric:
		out.Metrics = 0
		r.fail(
			p.dot("match.customMetric"), of.CustomMetric, "is no metric that proxies have; this entry has no effect",
			"a metric of Istio's, as REQUEST_COUNT",
		)
	case *telemetry.MetricSelector_Metric:
		var known bool
		if out.Metrics, known = metricOf(of.Metric); !known {
			r.fail(
				p.dot("match.metric"), of.Metric, "is no metric; this entry has no effect",
				"one of Istio's, as REQUEST_COUNT",
			)
		}
	}
	if out.Metrics == model.AllMetrics && out.Disabled != nil && !*out.Disabled {
		out.Metrics = model.UsualMetrics // messages of gRPC only by their names
	}
	return out
}

func (r *reader) metricTags(p path, in map[string]*telemetry.MetricsOverrides_TagOverride) []model.MetricTag {
	var out []model.MetricTag
	for _, name := range sortedKeys(in) {
		at, tag := p.key(name), in[name]
		switch {
		case len(out) == model.MaxTagChanges:
			r.fail(at, nil, "is one tag too many; it and those behind it have no effect",
				fmt.Sprintf("at most %d tags of an entry", model.MaxTagChanges))
			return out
		case !tagName.MatchString(name) || strings.HasPrefix(name, "__"):
			r.fail(at, nil, "is no name of a label in Prometheus; the tag is left out", `a name as "request_host"`)
			continue
		case name == ownTag || name == boundTag || name == messagesTag:
			r.fail(at, nil, "is a name that proxies use themselves; the tag is left out", "another name")
			continue
		}
		one := model.MetricTag{Name: name}
		switch op := tag.GetOperation(); op {
		case telemetry.MetricsOverrides_TagOverride_REMOVE:
		case telemetry.MetricsOverrides_TagOverride_UPSERT:
			if one.Format = r.tagFormat(at.dot("value"), tag.GetValue()); one.Format == "" {
				continue
			}
		default:
			r.fail(at.dot("operation"), op, "is no operation"+tagStays, "UPSERT or REMOVE")
			continue
		}
		out = append(out, one)
	}
	return out
}

// tooManyTags reports metrics with too many tags, whatever Telemetries above it say.
func (r *reader) tooManyTags(p path, of *model.Telemetry) {
	told := map[model.Metric]bool{}
	for _, side := range []model.WorkloadMode{model.ClientMode, model.ServerMode} {
		for _, d := range model.MergedMetrics(&r.mesh, []*model.Telemetry{of}, side).Dropped {
			if told[d.Metric] {
				continue
			}
			told[d.Metric] = true
			r.fail(
				p, d.Name, fmt.Sprintf("is one tag too many of %s; it and those behind it have no effect", d.Metric),
				fmt.Sprintf("at most %d tags of a metric, all entries together", model.MaxMetricTags),
			)
		}
	}
}

// tagFormat returns the format string for an expression; empty where there is none.
func (r *reader) tagFormat(p path, expression string) string {
	const want = `an expression in CEL that Envoy takes, as "request.host"`
	if expression == "" {
		r.fail(p, "", "is empty"+tagStays, want)
		return ""
	}
	format, err := cel.Format(expression)
	if err != nil {
		r.fail(p, expression, err.Error()+tagStays, want)
	}
	return format
}
