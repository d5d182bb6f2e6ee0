package spec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnUpgradeTakesAnotherMemberRoll: it replaces the members of the earlier one, and nothing else
// of what is installed.
func TestAnUpgradeTakesAnotherMemberRoll(t *testing.T) {
	member := func(name string) []Document {
		return []Document{{Name: "smmr.yaml", Text: "apiVersion: maistra.io/v1\nkind: ServiceMeshMemberRoll\n" +
			"metadata: {name: default, namespace: istio-system}\nspec: {members: ['" + name + "']}\n"}}
	}
	first, _, err := Read(Input{Image: "lateen:test", Documents: member("a"), Sets: []string{"pilot.replicaCount=3"}})
	require.NoError(t, err)
	second, notes, err := Read(Input{Earlier: first, Documents: member("b")})
	require.NoError(t, err)
	require.Empty(t, notes)
	selected := at(second.Values, "meshConfig.discoverySelectors").([]any)[0].(map[string]any)
	require.Equal(t, []any{"b", "istio-system"}, selected["matchExpressions"].([]any)[0].(map[string]any)["values"])
	require.EqualValues(t, 3, at(second.Values, "pilot.replicaCount"))

	all, _, err := Read(Input{Earlier: second, Documents: member("*")})
	require.NoError(t, err)
	require.Nil(t, at(all.Values, "meshConfig.discoverySelectors"))
}
