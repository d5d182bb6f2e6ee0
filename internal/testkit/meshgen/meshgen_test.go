package meshgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// The mesh is what its comment says: as many services as asked for, without mistakes, and a class
// for each proxy.
func TestMeshHasItsSizeAndNoMistakes(t *testing.T) {
	converter, mesh := convert.New(convert.Options{}), model.DefaultMesh()
	writer := state.NewWriter()
	var updates []state.Update
	for _, c := range append(meshgen.Mesh{Services: meshgen.Block}.Objects(), meshgen.Security(7)...) {
		r := converter.Convert(c, mesh)
		require.Empty(t, r.Problems, c.Key)
		updates = append(updates, state.Update{Key: c.Key, Objects: r.Objects})
	}
	w, _ := writer.Apply(updates)
	require.Equal(t, meshgen.Block, w.Counts().Services)
	require.Zero(t, w.Counts().PendingEndpoints)

	classifier, classes := scope.NewClassifier(), map[scope.Class]bool{}
	for _, p := range meshgen.Proxies() {
		kind := scope.Sidecar
		if p.Gateway {
			kind = scope.Router
		}
		classes[classifier.Classify(w, scope.Proxy{
			Type:      kind,
			Namespace: p.Namespace,
			Name:      p.Pod,
			Labels:    model.LabelsOf(p.Labels),
			Settings:  scope.Settings{HTTPProxyPort: p.HTTPProxyPort},
		})] = true
		require.NotNil(t, w.Workload(p.Namespace, p.Pod), p.Pod)
	}
	require.Len(t, classes, meshgen.Classes)
}
