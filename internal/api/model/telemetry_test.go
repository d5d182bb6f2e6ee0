package model

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMergedLogs holds what istiod does with Telemetries of several levels, for the server's side.
func TestMergedLogs(t *testing.T) {
	provider := func(name string) LogProvider { return LogProvider{Name: name, Log: &AccessLog{Path: name}} }
	a, b := provider("a"), provider("b")
	legacy := []*AccessLog{{Path: "legacy"}}
	withDefault := &MeshConfig{
		DefaultLogs: []LogProvider{a}, AccessLogs: []*AccessLog{a.Log}, LegacyLogs: legacy,
	}
	without := &MeshConfig{AccessLogs: legacy, LegacyLogs: legacy}
	names := func(providers ...LogProvider) LogRule { return LogRule{Providers: providers} }
	inherits := LogRule{Inherits: true}
	filtered := func(r LogRule, filter string) LogRule { r.Filter = filter; return r }
	of := func(side WorkloadMode, r LogRule) LogRule { r.Mode = side; return r }
	off := func(r LogRule) LogRule { r.Disabled = true; return r }
	level := func(rules ...LogRule) *Telemetry { return &Telemetry{AccessLogs: rules} }
	for name, c := range map[string]struct {
		mesh   *MeshConfig
		levels []*Telemetry
		want   []string
	}{
		"nothing is said":                           {withDefault, []*Telemetry{level()}, []string{"a"}},
		"nothing is said, and there is no default":  {without, nil, []string{"legacy"}},
		"one that inherits":                         {withDefault, []*Telemetry{level(inherits)}, []string{"a"}},
		"one that inherits nothing leaves the file": {without, []*Telemetry{level(inherits)}, []string{"legacy"}},
		"one that disables without a provider ends the file": {
			without, []*Telemetry{level(off(inherits))}, nil,
		},
		"disabled for the other side alone leaves the file": {
			without, []*Telemetry{level(off(of(ClientMode, inherits)))}, []string{"legacy"},
		},
		"disabled by the mesh, and enabled by the workload, without a provider": {
			without, []*Telemetry{level(off(inherits)), level(inherits)}, []string{"legacy"},
		},
		"a filter without a provider is one of the file": {
			without, []*Telemetry{level(filtered(inherits, "x")), level(inherits)}, []string{"legacy x"},
		},
		"the nearest that names some replaces others": {
			withDefault, []*Telemetry{level(names(a)), level(names(b))}, []string{"b"},
		},
		"entries of a level come together": {without, []*Telemetry{level(names(b), names(a))}, []string{"a", "b"}},
		"an entry for the other side alone leaves the file, not the default": {
			withDefault, []*Telemetry{level(of(ClientMode, names(b)))}, []string{"legacy"},
		},
		"disabling the other side alone does so, too": {
			withDefault, []*Telemetry{level(off(of(ClientMode, inherits)))}, []string{"legacy"},
		},
		"an entry for the other side leaves what the level above says": {
			withDefault, []*Telemetry{level(names(b)), level(of(ClientMode, names(a)))}, []string{"b"},
		},
		"disabled": {withDefault, []*Telemetry{level(off(inherits))}, nil},
		"disabled by the mesh, enabled by the workload": {
			withDefault, []*Telemetry{level(off(names(a))), level(inherits)}, []string{"a"},
		},
		"a filter of the level above stays": {
			withDefault, []*Telemetry{level(filtered(names(b), "x")), level(inherits)}, []string{"b x"},
		},
		"a filter of one that inherits": {
			withDefault, []*Telemetry{level(names(b)), level(filtered(inherits, "y"))}, []string{"b y"},
		},
		"one that names the provider again has no filter": {
			withDefault, []*Telemetry{level(filtered(names(b), "x")), level(names(b))}, []string{"b"},
		},
		"an entry without providers is for those of the entry before": {
			without, []*Telemetry{level(names(a), names(b), off(inherits))}, []string{"a"},
		},
	} {
		var got []string
		for _, log := range MergedLogs(c.mesh, c.levels, ServerMode) {
			one := log.Path
			if log.Filter != "" {
				one += " " + log.Filter
			}
			got = append(got, one)
		}
		require.Equal(t, c.want, got, name)
	}
}

// TestCredentialsOfReceiversAreNotShown: pages and logs show the mesh configuration.
func TestCredentialsOfReceiversAreNotShown(t *testing.T) {
	const token = "Bearer s3cret"
	tracer := &Tracer{Headers: []SecretHeader{{Name: "authorization", Value: NewSensitive(token)}}}
	page, err := json.Marshal(MeshConfig{Tracers: []*Tracer{tracer}, Tracing: Tracing{Tracer: tracer}})
	require.NoError(t, err)
	require.Contains(t, string(page), "authorization")
	require.NotContains(t, string(page)+fmt.Sprintf("%v %+v", *tracer, *tracer), "s3cret")
}
