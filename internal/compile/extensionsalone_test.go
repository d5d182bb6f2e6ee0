package compile

import (
	"testing"

	"github.com/stretchr/testify/require"
	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/lateen-mesh/lateen/internal/api/extension"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// extending is a WasmPlugin as a test changes it.
func extending(t *testing.T, name string, change func(*extensions.WasmPlugin)) *model.EnvoyFilter {
	t.Helper()
	spec := &extensions.WasmPlugin{Url: "oci://a.test/plugin:v1"}
	change(spec)
	f := &model.EnvoyFilter{
		Meta: aloneMeta(kinds.WasmPlugin, name), Priority: extension.Priority(spec.GetPriority()),
	}
	phase, patches, problems := extension.Read(extension.OfPlugin(f.Key(), spec))
	require.Empty(t, problems)
	f.Phase, f.Patches = phase, patches
	return f
}

// extendedServices are those of a workload that is asked at a port, and a policy for it.
func extendedServices() []model.Object {
	asked := aloneService("asked", model.ServicePort{Name: "http", Port: 82, Protocol: model.HTTP, Target: 8080})
	asked.Selector = model.LabelsOf(map[string]string{"app": "web"})
	return append(patchedServices(), asked, &model.AuthorizationPolicy{
		Meta: aloneMeta(kinds.AuthorizationPolicy, "deny"), Action: model.AuthorizationDeny,
		Rules: everyCall,
	})
}

// One part of an extension changes alone, and a proxy follows: also in what names the filter, which
// does not have its configuration.
func TestOnePartOfAnExtensionChanges(t *testing.T) {
	none := func(*extensions.WasmPlugin) {}
	for name, change := range map[string]func(*extensions.WasmPlugin){
		"the fail strategy": func(s *extensions.WasmPlugin) { s.FailStrategy = extensions.FailStrategy_FAIL_OPEN },
		"the phase":         func(s *extensions.WasmPlugin) { s.Phase = extensions.PluginPhase_AUTHZ },
		"the type":          func(s *extensions.WasmPlugin) { s.Type = extensions.PluginType_NETWORK },
		"the module":        func(s *extensions.WasmPlugin) { s.Url = "oci://a.test/plugin:v2" },
		"the match": func(s *extensions.WasmPlugin) {
			s.Match = []*extensions.WasmPlugin_TrafficSelector{{Mode: typev1beta1.WorkloadMode_SERVER}}
		},
	} {
		for _, apart := range []bool{false, true} {
			p := patchedSidecar()
			p.Settings.FiltersApart = apart
			was, is := extending(t, "f", none), extending(t, "f", change)
			t.Run(name, func(t *testing.T) {
				requireFollows(t, p, [][]model.Object{append(extendedServices(), was), {is}, {was}})
			})
		}
	}
}

// The phase of one of two extensions changes alone: from STATS to none, which are one place.
func TestTheOrderOfExtensionsChanges(t *testing.T) {
	of := func(name string, phase extensions.PluginPhase) *model.EnvoyFilter {
		return extending(t, name, func(s *extensions.WasmPlugin) { s.Phase = phase })
	}
	stats := extensions.PluginPhase_STATS
	requireFollows(t, patchedSidecar(), [][]model.Object{
		append(patchedServices(), of("a", stats), of("b", stats)), {of("a", 0)}, {of("a", stats)},
	})
}

// Filters of policies are a resource of their own until a filter is to stand between them.
func TestAnExtensionBetweenPoliciesSplitsThem(t *testing.T) {
	p := patchedSidecar()
	p.Settings.FiltersApart = true
	has := func(phase extensions.PluginPhase) bool {
		w := state.NewWriter()
		w.Apply(updatesOf(append(extendedServices(), extending(t, "f", func(s *extensions.WasmPlugin) {
			s.Phase = phase
		}))))
		set := placeIn(t, w.Snapshot(), p).state.Set(resource.Filter)
		require.NotNil(t, set.Get("extensions.istio.io/wasmplugin/default.f"))
		return set.Get(pb.PolicyFilters) != nil
	}
	require.True(t, has(extensions.PluginPhase_AUTHN))
	require.False(t, has(extensions.PluginPhase_AUTHZ))
}
