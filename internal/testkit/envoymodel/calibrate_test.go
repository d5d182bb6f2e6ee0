package envoymodel_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

var update = flag.Bool("update", false, "record the scripts in testdata anew, from a real Envoy")

func TestRealEnvoyStillBehavesAsRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real Envoys")
	}
	binary := realenvoy.Binary(t)
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			for i, f := range archive.Files {
				t.Run(f.Name, func(t *testing.T) {
					t.Parallel()
					s, err := envoymodel.ParseScript(f.Name, string(f.Data))
					require.NoError(t, err)
					p, err := startReal(binary, s)
					require.NoError(t, err)
					defer p.Close()
					played, err := s.Play(p)
					require.NoError(t, err)
					if *update {
						archive.Files[i].Data = []byte(played.String())
						return
					}
					require.Equal(t, s.String(), played.String())
				})
			}
			if *update {
				t.Cleanup(func() { require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644)) })
			}
		})
	}
}
