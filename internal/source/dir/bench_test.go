package dir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/source"
)

// BenchmarkStart measures the time until a directory of 1,000 files with three documents each was
// delivered, with nothing recorded, and with everything recorded.
func BenchmarkStart(b *testing.B) {
	threeDocuments, err := os.ReadFile("../manifest/testdata/three.yaml") // with a place for a number
	require.NoError(b, err)
	path := b.TempDir()
	for i := range 1000 {
		require.NoError(b, os.WriteFile(
			filepath.Join(path, fmt.Sprintf("%04d.yaml", i)), fmt.Appendf(nil, string(threeDocuments), i), 0o600,
		))
	}
	start := func(b *testing.B, state string) {
		ctx, cancel := context.WithCancel(b.Context())
		objects := 0
		require.NoError(b, New(Options{Path: path, StateDir: state}).Run(ctx, func(e source.Event) {
			objects += len(e.Changes)
			cancel()
		}))
		require.Equal(b, 3000, objects)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			start(b, b.TempDir())
		}
	})
	b.Run("again", func(b *testing.B) {
		state := b.TempDir()
		start(b, state)
		for b.Loop() {
			start(b, state)
		}
	})
}
