package manifest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each place of each kind has a schema, but for the few that have none by their nature: a new
// version of an API that brings a type with a form of its own shows here.
func TestPlacesWithoutSchema(t *testing.T) {
	var bare []string
	seen := map[schema]bool{}
	var visit func(path string, s schema)
	visit = func(path string, s schema) {
		switch s := s.(type) {
		case anySchema:
			bare = append(bare, path)
		case *listSchema:
			visit(path+"[]", s.element)
		case *mapSchema:
			visit(path+".*", s.element)
		case *objectSchema:
			if seen[s] {
				return
			}
			seen[s] = true
			require.True(t, slices.IsSorted(s.names))
			for _, name := range s.names {
				visit(path+"."+name, s.fields[name].schema)
			}
		}
	}
	for _, kind := range kindCatalog().used() {
		visit(kind, kindCatalog().find(kindCatalog().versions[kind][0], kind).resource.schema)
	}
	require.Equal(t, []string{
		"AuthorizationPolicy.metadata.managedFields[].fieldsV1", "EnvoyFilter.spec.configPatches[].patch.value",
		"GatewayClass.status.supportedFeatures[]", "TrafficExtension.spec.wasm.pluginConfig",
		"WasmPlugin.spec.pluginConfig",
	}, bare)
}

func TestNearest(t *testing.T) {
	fields := []string{"hosts", "http", "gateways", "exportTo", "perTryTimeout"}
	for word, want := range map[string]string{
		"host": "hosts", "HTTP": "http", "export_to": "exportTo", "getaways": "gateways", "gatewasy": "gateways",
		"per-try-timeout": "perTryTimeout", "timeout": "", "x": "", "": "",
	} {
		require.Equal(t, want, nearest(word, fields), word)
	}
}
