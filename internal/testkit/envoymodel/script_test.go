package envoymodel_test

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
)

// TestModelBehavesAsRecorded plays every script to the model: it says and has what the real Envoy said and had.
func TestModelBehavesAsRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, f := range archive.Files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+f.Name, func(t *testing.T) {
				s, err := envoymodel.ParseScript(f.Name, string(f.Data))
				require.NoError(t, err)
				requireModel(t, s)
			})
		}
	}
}

// attempts is how many orders of recipients are tried for a script: with up to four of them in a refused response, one is
// missed less often than once in 10^9.
const attempts = 500

// requireModel plays the script to models until one does as was seen. What they differ in is the order in which they serve the
// recipients of a response, which in Envoy is an accident.
func requireModel(t *testing.T, seen *envoymodel.Script) {
	t.Helper()
	var first string
	for seed := range uint64(attempts) {
		o := envoymodel.Options{Protocol: seen.Protocol, Drain: seen.Drain}
		if seed > 0 {
			o.Shuffle = rand.New(rand.NewPCG(seed, 0)).Shuffle
		}
		played, err := seen.Play(envoymodel.NewPeer(o))
		require.NoError(t, err)
		if played.String() == seen.String() {
			return
		}
		if seed == 0 {
			first = played.String()
		}
	}
	require.Equal(t, seen.String(), first, "the real Envoy is expected, the model actual")
}
