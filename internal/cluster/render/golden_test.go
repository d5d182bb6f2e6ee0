package render

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
