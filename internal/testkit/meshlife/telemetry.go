package meshlife

import (
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

func drawTelemetry(t *rapid.T, m model.Meta) *model.Telemetry {
	out := &model.Telemetry{Meta: m, Selection: drawSelection(t)}
	for range one(t, "log rules", 0, 1, 1, 2) {
		out.AccessLogs = append(out.AccessLogs, drawLogRule(t))
	}
	if rapid.Bool().Draw(t, "traces") {
		out.Tracing = []model.TracingRule{drawTracingRule(t)}
	}
	if rarely(t, 3, "metrics") {
		out.Metrics = []model.MetricsRule{drawMetricsRule(t)}
	}
	return out
}

func drawProxyConfig(t *rapid.T, m model.Meta) *model.ProxyConfig {
	out := &model.ProxyConfig{
		Meta: m, Selector: drawPolicySelector(t), ImageType: one(t, "image type", "", "debug", "distroless"),
		Concurrency: one(t, "concurrency", nil, new(int32(0)), new(int32(2))),
	}
	if rapid.Bool().Draw(t, "has an environment") {
		out.Environment = []model.Variable{{Name: "A", Value: one(t, "value of a variable", "", "a", "b")}}
	}
	return out
}

func drawMetricsRule(t *rapid.T) model.MetricsRule {
	r := model.MetricsRule{Inherits: rapid.Bool().Draw(t, "inherits metrics")}
	r.Prometheus = !r.Inherits && rapid.Bool().Draw(t, "counts for Prometheus")
	for range one(t, "overrides", 0, 1, 1, 2) {
		o := model.MetricOverride{
			Metrics: one(t, "metrics", model.AllMetrics, model.RequestCount.Set(), model.TCPSent.Set(),
				model.RequestMessages.Set()),
			Mode:     drawMode(t),
			Disabled: one(t, "no metric", nil, nil, new(true), new(false)),
		}
		if rapid.Bool().Draw(t, "tag") {
			o.Tags = []model.MetricTag{{
				Name:   one(t, "name of a tag", "host", "response_flags"),
				Format: one(t, "format of a tag", "", "%CEL(request.host):128%", "%CEL(request.path):128%"),
			}}
		}
		r.Overrides = append(r.Overrides, o)
	}
	return r
}

func drawMode(t *rapid.T) model.WorkloadMode {
	return one(t, "mode", model.ClientAndServer, model.ClientAndServer, model.ClientMode, model.ServerMode)
}

func drawLogRule(t *rapid.T) model.LogRule {
	r := model.LogRule{
		Mode:     drawMode(t),
		Disabled: rarely(t, 4, "disabled"),
		Filter:   one(t, "filter", "", "", "response.code >= 400"),
	}
	if r.Inherits = rarely(t, 3, "inherits"); !r.Inherits {
		path := one(t, "log file", "/dev/stdout", "/dev/stderr")
		r.Providers = []model.LogProvider{{Name: path, Log: &model.AccessLog{Path: path}}}
	}
	return r
}

func drawTracer(t *rapid.T) *model.Tracer {
	return &model.Tracer{
		Name: "zipkin", Kind: model.TraceZipkin, Host: one(t, "tracer's host", hosts[:4]...),
		Port: one(t, "tracer's port", ports...), Path: "/",
	}
}

func drawTracingRule(t *rapid.T) model.TracingRule {
	r := model.TracingRule{Mode: drawMode(t), Disabled: one(t, "no spans", nil, nil, new(true), new(false))}
	if r.Inherits = rarely(t, 3, "inherits"); !r.Inherits {
		r.Tracer = one(t, "tracer", drawTracer(t), drawTracer(t), nil)
	}
	return r
}
