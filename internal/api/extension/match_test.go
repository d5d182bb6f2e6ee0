package extension

import (
	"testing"

	"github.com/stretchr/testify/require"
	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// An object with more ports than are bound is closed as a whole: each port would be a patch.
func TestTooManyPortsClose(t *testing.T) {
	of := func(ports int, strategy extensions.FailStrategy) ([]*model.ConfigPatch, []source.Problem) {
		match := &extensions.TrafficSelector{Mode: typev1beta1.WorkloadMode_SERVER}
		for i := range ports {
			match.Ports = append(match.Ports, &typev1beta1.PortSelector{Number: uint32(i + 1)})
		}
		_, patches, problems := Read(Spec{
			Object: source.Key{Kind: kinds.TrafficExtension, Namespace: "shop", Name: "x"}, Path: "spec.wasm",
			Wasm:  &extensions.WasmConfig{Url: "file:///x.wasm", FailStrategy: strategy},
			Match: []*extensions.TrafficSelector{match},
		})
		return patches, problems
	}
	patches, problems := of(maxMatches-1, extensions.FailStrategy_FAIL_CLOSE)
	require.Len(t, patches, maxMatches-1)
	require.Empty(t, problems)

	patches, problems = of(maxMatches, extensions.FailStrategy_FAIL_CLOSE)
	require.Len(t, patches, 1)
	require.Contains(t, patches[0].Value.Config, "RBAC")
	require.Len(t, problems, 1)
	require.Equal(t, "spec.match", problems[0].Path)

	patches, problems = of(maxMatches, extensions.FailStrategy_FAIL_OPEN)
	require.Empty(t, patches)
	require.Len(t, problems, 1)
}
