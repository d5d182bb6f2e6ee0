package spec

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/install/render"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// ofReaderAlone are values that a Reader makes something of, and the chart does not: Helm refuses
// them.
var ofReaderAlone = []string{"istio_cni"}

// TestTheChartTakesIstiosValues: Helm takes Istio's values too, and the chart's notes say which of
// them have no effect, and why.
func TestTheChartTakesIstiosValues(t *testing.T) {
	text, err := render.Text(render.Lateen, "values.schema.json")
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	told := maps.Clone(elsewhere())
	for _, path := range ofReaderAlone {
		delete(told, path)
	}
	for path, why := range maps.Clone(told) {
		if short, below := strings.CutPrefix(path, "pilot."); below && told[short] == "" {
			told[short] = why
		}
	}
	for path := range told {
		node := schema
		for name := range strings.SplitSeq(path, ".") {
			below, _ := node["properties"].(map[string]any)
			node, _ = below[name].(map[string]any)
		}
		require.Equal(t, render.OfIstio, node["description"], "%s in charts/lateen/values.schema.json", path)
	}
	lines, err := json.MarshalIndent(told, "", "  ")
	require.NoError(t, err)
	golden.File(t, "../../../charts/lateen/files/without-effect.json", string(lines)+"\n")
}

// TestTheChartsTakeIstiosFiles: the values.yaml of Istio's charts go into Lateen's by Helm as they
// are.
func TestTheChartsTakeIstiosFiles(t *testing.T) {
	for chart, file := range map[string]string{render.Lateen: "istio-istiod", render.Base: "istio-base"} {
		archive, err := txtar.ParseFile("testdata/" + file + ".txtar")
		require.NoError(t, err)
		var values map[string]any
		require.NoError(t, yaml.Unmarshal(archive.Files[0].Data, &values))
		if chart == render.Lateen {
			_, err = render.Release{Chart: chart, Name: "x", Namespace: "istio-system", Values: values}.Objects()
			require.ErrorContains(t, err, `pilot.image = "pilot" is istiod's`)
			values["pilot"] = map[string]any{"image": "r.test/lateen:v1"}
		}
		objects, err := render.Release{Chart: chart, Name: "x", Namespace: "istio-system", Values: values}.Objects()
		require.NoError(t, err, chart)
		require.NotEmpty(t, objects)
	}
}
