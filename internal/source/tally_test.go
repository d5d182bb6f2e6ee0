package source_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/source"
)

// The problems of all flushes, less those that were mended, are the current ones.
func TestFlushesAddUpToCurrent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tally, heard := source.NewTally(), map[source.Problem]bool{}
		var said []*source.Tallied
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(said) > 0 && rapid.Bool().Draw(t, "drop") {
				i := rapid.IntRange(0, len(said)-1).Draw(t, "which")
				tally.Release(said[i])
				said = slices.Delete(said, i, i+1)
			} else {
				said = append(said, tally.Add(
					source.Problem{Message: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "message")},
				))
			}
			if rapid.Bool().Draw(t, "tell") {
				continue
			}
			appeared, mended := tally.Flush()
			for _, p := range appeared {
				require.False(t, heard[p])
				heard[p] = true
			}
			for _, p := range mended {
				require.True(t, heard[p])
				delete(heard, p)
			}
			require.Len(t, tally.Current(), len(heard))
			require.Equal(t, tally.Current(), tally.Flushed())
			for _, x := range said {
				require.True(t, heard[x.Problem])
			}
		}
	})
}
