package spec

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExcludedKindsAreNotInstalled: base.excludedCRDs leaves out the definitions that it names.
func TestExcludedKindsAreNotInstalled(t *testing.T) {
	installs := func(sets ...string) []string {
		s, _, err := Read(Input{Image: "r.test/lateen:v1", Sets: sets})
		require.NoError(t, err)
		objects, err := s.Objects(nil)
		require.NoError(t, err)
		var names []string
		for _, o := range objects {
			if o.GetKind() == "CustomResourceDefinition" {
				names = append(names, o.GetName())
			}
		}
		return names
	}
	const excluded = "sidecars.networking.istio.io"
	all := installs()
	require.Contains(t, all, excluded)
	rest := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == excluded })
	require.Equal(t, rest, installs("values.base.excludedCRDs={"+excluded+"}"))
}
