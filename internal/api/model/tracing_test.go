package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMergedTracing holds what Istio's Telemetry API says of tracing: each field of a nearer level
// or of a later entry replaces the one before, for the sides that the entry is for.
func TestMergedTracing(t *testing.T) {
	a, b, legacy := &Tracer{Name: "a"}, &Tracer{Name: "b"}, &Tracer{Name: "legacy"}
	tag := func(name string) []TraceTag { return []TraceTag{{Name: name}} }
	withDefault := &MeshConfig{Tracing: Tracing{Tracer: a, Sampling: SamplePercent, Tags: tag("mesh")}}
	without := &MeshConfig{Tracing: Tracing{Sampling: SamplePercent}}
	withLegacy := &MeshConfig{
		LegacyTracer: true, Tracing: Tracing{Tracer: legacy, Sampling: SamplePercent, NoIstioTags: true},
	}
	of := func(mode WorkloadMode, r TracingRule) TracingRule { r.Mode = mode; return r }
	inherits := TracingRule{Inherits: true}
	names := func(tracer *Tracer) TracingRule { return TracingRule{Tracer: tracer} }
	sampled := func(n uint32) TracingRule { return TracingRule{Inherits: true, Sampling: &n} }
	disabled := func(is bool) TracingRule { return TracingRule{Inherits: true, Disabled: &is} }
	tagged := func(name string) TracingRule { return TracingRule{Inherits: true, Tags: tag(name)} }
	istioTags := func(are bool) TracingRule { return TracingRule{Inherits: true, IstioTags: &are} }
	yes, no := true, false
	level := func(rules ...TracingRule) *Telemetry { return &Telemetry{Tracing: rules} }
	traced := func(by *Tracer, sampling uint32) Tracing { return Tracing{Tracer: by, Sampling: sampling} }
	with := func(name string, out Tracing) Tracing { out.Tags = tag(name); return out }
	byDefault := withDefault.Tracing
	for name, c := range map[string]struct {
		mesh             *MeshConfig
		levels           []*Telemetry
		clients, servers Tracing
	}{
		"nothing is said": {withDefault, []*Telemetry{level(), level()}, byDefault, byDefault},
		"the nearest of three levels that names a provider counts": {
			without, []*Telemetry{level(names(a)), level(names(b)), level(inherits)},
			traced(b, SamplePercent), traced(b, SamplePercent),
		},
		"each field comes from the nearest level that sets it": {
			withDefault, []*Telemetry{level(sampled(SampleAll)), level(tagged("near")), level(names(b))},
			with("near", traced(b, SampleAll)), with("near", traced(b, SampleAll)),
		},
		"a sampling of zero replaces another": {
			withDefault, []*Telemetry{level(sampled(SampleAll)), level(sampled(0))},
			with("mesh", traced(a, 0)), with("mesh", traced(a, 0)),
		},
		"tags replace others, and are not added to them": {
			withDefault, []*Telemetry{level(tagged("x")), level(tagged("y"))},
			with("y", traced(a, SamplePercent)), with("y", traced(a, SamplePercent)),
		},
		"a later entry of a level replaces an earlier one": {
			withDefault, []*Telemetry{level(sampled(1), sampled(2))},
			with("mesh", traced(a, 2)), with("mesh", traced(a, 2)),
		},
		"an entry for one side leaves the other": {
			withDefault, []*Telemetry{level(of(ClientMode, sampled(1))), level(of(ServerMode, names(b)))},
			with("mesh", traced(a, 1)), with("mesh", traced(b, SamplePercent)),
		},
		"one side reports no spans": {
			withDefault, []*Telemetry{level(of(ServerMode, disabled(true)))}, byDefault, Tracing{},
		},
		"disabled for the mesh, enabled for a workload": {
			withDefault, []*Telemetry{level(disabled(true)), level(), level(disabled(false))}, byDefault, byDefault,
		},
		"a provider does not enable what is disabled": {
			withDefault, []*Telemetry{level(disabled(true)), level(names(b))}, Tracing{}, Tracing{},
		},
		"an unknown provider traces nothing": {withDefault, []*Telemetry{level(names(nil))}, Tracing{}, Tracing{}},
		"there is no provider to inherit":    {without, []*Telemetry{level(sampled(SampleAll))}, Tracing{}, Tracing{}},
		"the tracer of defaultConfig counts while no Telemetry says anything": {
			withLegacy, []*Telemetry{level(), level()}, withLegacy.Tracing, withLegacy.Tracing,
		},
		"it is no provider to inherit, on neither side": {
			withLegacy, []*Telemetry{level(of(ClientMode, sampled(SampleAll)))}, Tracing{}, Tracing{},
		},
		"enableIstioTags of defaultConfig is about its tracer": {
			withLegacy, []*Telemetry{level(names(b))}, traced(b, SamplePercent), traced(b, SamplePercent),
		},
		"a nearer level does not forget what one above says of Istio's tags": {
			without, []*Telemetry{level(names(b), istioTags(false)), level(sampled(1))},
			Tracing{Tracer: b, Sampling: 1, NoIstioTags: true}, Tracing{Tracer: b, Sampling: 1, NoIstioTags: true},
		},
		"Istio's tags of one side": {
			without, []*Telemetry{level(names(b), istioTags(false)), level(of(ServerMode, istioTags(true)))},
			Tracing{Tracer: b, Sampling: SamplePercent, NoIstioTags: true}, traced(b, SamplePercent),
		},
		"request ids and the headers of traces": {
			without, []*Telemetry{
				level(TracingRule{Tracer: b, KeepsRequestID: &yes, NoContext: &yes}),
				level(TracingRule{Inherits: true, Mode: ClientMode, KeepsRequestID: &no, NoContext: &no}),
			},
			traced(b, SamplePercent),
			Tracing{Tracer: b, Sampling: SamplePercent, KeepsRequestID: true, NoContext: true},
		},
	} {
		require.Equal(t, c.clients, MergedTracing(c.mesh, c.levels, ClientMode), "%s: clients", name)
		require.Equal(t, c.servers, MergedTracing(c.mesh, c.levels, ServerMode), "%s: servers", name)
	}
}
