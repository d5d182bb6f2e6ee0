package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// FuzzManifests takes whatever somebody may write from YAML to the sets of sidecars and a gateway:
// nothing panics, Envoy's rules hold for each resource, and the same manifests give the same
// resources and problems again, in the other order.
func FuzzManifests(f *testing.F) {
	for _, pattern := range []string{
		"../../internal/api/convert/testdata/*.yaml", "../../internal/compile/testdata/*.in.yaml",
		"../../internal/translate/route/testdata/*.in.yaml",
		"../../internal/translate/cluster/testdata/*.in.yaml", "../../examples/*/*.yaml",
	} {
		cases, err := filepath.Glob(pattern)
		require.NoError(f, err)
		require.NotEmpty(f, cases, pattern)
		for _, file := range cases {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			if _, rest, headed := bytes.Cut(data, []byte("\n---\n")); headed &&
				filepath.Ext(file[:len(file)-len(".yaml")]) == ".in" {
				data = rest
			}
			f.Add(data)
		}
	}
	for kind, variants := range specs {
		for i := range variants {
			f.Add([]byte(document{kind: kind, namespace: "default", name: "a", spec: i}.String()))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<15 {
			t.Skip("long manifests find what short ones find")
		}
		documents, _ := manifest.Read("in.yaml", data)
		var forth, back []source.Change
		for i := range documents {
			forth = append(forth, documents[i].Change(time.Time{}))
			back = append(back, documents[len(documents)-1-i].Change(time.Time{}))
		}
		one, other := start(t, memory.New(forth...)), start(t, memory.New(back...))
		one.settle()
		other.settle()
		requireSound(t, one)
		require.Equal(t, one.resources(), other.resources())
		require.Equal(t, one.problems(), other.problems())
	})
}
