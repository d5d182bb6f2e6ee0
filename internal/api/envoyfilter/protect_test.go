package envoyfilter

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// What protects is closed where it has a mistake, and left out without the annotation. What adds no
// filter is left out in any case.
func TestAMistakeInWhatProtectsCloses(t *testing.T) {
	read := func(patch string, protects bool) ([]*model.ConfigPatch, string) {
		spec := &networking.EnvoyFilter{}
		require.NoError(t, protojson.Unmarshal([]byte(`{"configPatches": [`+patch+`]}`), spec))
		patches, problems := Read(spec, protects)
		require.Len(t, problems, 1)
		return patches, problems[0].Message
	}
	for target, config := range map[string]string{
		"HTTP_FILTER":    "envoy.extensions.filters.http.rbac.v3.RBAC",
		"NETWORK_FILTER": "envoy.extensions.filters.network.rbac.v3.RBAC",
	} {
		mistaken := `{"applyTo": "` + target + `", "patch": {"operation": "INSERT_FIRST", "value": {
			"name": "guard", "typed_config": {"@type": "type.googleapis.com/no.such.Guard"}}}}`
		patches, message := read(mistaken, true)
		require.Len(t, patches, 1)
		require.Equal(t, "type.googleapis.com/"+config, patches[0].Value.Config)
		require.Equal(t, model.FallbackDeny, patches[0].Fallback)
		require.Contains(t, message, "is refused")
		patches, message = read(mistaken, false)
		require.Empty(t, patches)
		require.Contains(t, message, "is left out")
	}
	patches, _ := read(
		`{"applyTo": "CLUSTER", "patch": {"operation": "MERGE", "value": {"connect_timeout": "soon"}}}`, true,
	)
	require.Empty(t, patches)
}
