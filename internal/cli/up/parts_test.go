package up

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStateDirectoriesAreKeptApart(t *testing.T) {
	parent := t.TempDir()
	state := func(dir string) string {
		t.Helper()
		s, err := stateDirOf(parent, dir)
		require.NoError(t, err)
		return s
	}
	require.Equal(t, filepath.Join(parent, "mesh"), state("/a/mesh"))
	require.Equal(t, filepath.Join(parent, "mesh"), state("/a/mesh/"), "the same directory")
	other := state("/b/mesh")
	require.Regexp(t, `/mesh-[0-9a-f]{8}$`, other)
	require.Equal(t, other, state("/b/mesh"))
}
