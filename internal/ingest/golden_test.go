package ingest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/dir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden converts each testdata/<case>.yaml and compares what comes out with testdata/<case>.golden. A mesh
// configuration in a case holds for what stands below it.
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	for _, in := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".yaml"), func(t *testing.T) {
			got := convertFile(t, in)
			golden := strings.TrimSuffix(in, ".yaml") + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "run the test with -update and look at what it wrote")
			require.Equal(t, string(want), got)
		})
	}
}

// TestGoldenHasNoOrphans finds golden files whose case is gone.
func TestGoldenHasNoOrphans(t *testing.T) {
	golden, err := filepath.Glob("testdata/*.golden")
	require.NoError(t, err)
	for _, g := range golden {
		require.FileExists(t, strings.TrimSuffix(g, ".golden")+".yaml")
	}
}

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

func documents(t *testing.T, file string) []dir.Document {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	list, problems := dir.Read(filepath.Base(file), data)
	require.Empty(t, problems)
	return list
}

func change(d dir.Document) source.Change {
	return source.Change{Key: d.Key, Object: d.Object, Origin: d.Origin}
}
