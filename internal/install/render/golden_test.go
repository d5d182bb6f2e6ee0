package render

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestGolden compares what charts make of values with testdata: a change of rights is to be seen in
// a review. What is refused has its error.
func TestGolden(t *testing.T) {
	golden.Cases(t, ".in.yaml", ".out.yaml", func(t *testing.T, path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var in struct {
			Chart, Name, Namespace string
			Values                 map[string]any
		}
		require.NoError(t, yaml.UnmarshalStrict(text, &in))
		if in.Values == nil {
			in.Values = map[string]any{}
		}
		objects, err := Release{Chart: in.Chart, Name: in.Name, Namespace: in.Namespace, Values: in.Values}.Objects()
		if err != nil {
			return "error: |\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  ") + "\n"
		}
		var out strings.Builder
		require.NoError(t, Write(&out, objects))
		return out.String()
	})
}

// TestDashboardsAreConfigMaps: one for each, with the label by which Grafana's sidecar finds them.
func TestDashboardsAreConfigMaps(t *testing.T) {
	values := map[string]any{
		"pilot":      map[string]any{"image": "registry.example.com/lateen:v1"},
		"dashboards": map[string]any{"enabled": true},
	}
	objects, err := Release{Chart: "lateen", Name: "lateen", Namespace: "istio-system", Values: values}.Objects()
	require.NoError(t, err)
	var found []string
	for _, o := range objects {
		if o.GetLabels()["grafana_dashboard"] != "1" {
			continue
		}
		data, _, err := unstructured.NestedStringMap(o.Object, "data")
		require.NoError(t, err)
		for name, text := range data {
			require.True(t, json.Valid([]byte(text)), name)
			found = append(found, o.GetName()+"/"+name)
		}
	}
	require.ElementsMatch(t, []string{
		"istiod-dashboard-capacity/capacity.json", "istiod-dashboard-control-plane/control-plane.json",
		"istiod-dashboard-data-plane/data-plane.json", "istiod-dashboard-push-pipeline/push-pipeline.json",
	}, found)
}
