package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestGolden converts each testdata/<case>.yaml and compares what comes out with
// testdata/<case>.golden. A mesh configuration in a case holds for what stands below it.
func TestGolden(t *testing.T) { golden.Cases(t, ".yaml", ".golden", convertFile) }

func convertFile(t *testing.T, file string) string {
	t.Helper()
	converter, mesh := New(Options{}), model.DefaultMesh()
	var b strings.Builder
	for _, d := range documents(t, file) {
		b.WriteString("# " + d.Key.String() + "\n")
		result := converter.Convert(change(d), mesh)
		for _, o := range result.Objects {
			b.WriteString(dump(o))
			if m, ok := o.(*model.MeshConfig); ok {
				mesh = *m
			}
		}
		if len(result.Objects) == 0 {
			b.WriteString("nothing\n")
		}
		if result.Ignored {
			b.WriteString("ignored\n")
		}
		for _, p := range result.Problems {
			require.Equal(t, d.Key, p.Object)
			p.Object, p.Origin = source.Key{}, ""
			b.WriteString(p.String() + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func documents(t *testing.T, file string) []manifest.Document {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	list, problems := manifest.Read(filepath.Base(file), data)
	require.Empty(t, problems)
	return list
}

func change(d manifest.Document) source.Change {
	return source.Change{Key: d.Key, Object: d.Object, Origin: d.Origin}
}
