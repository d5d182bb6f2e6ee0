package perf

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSearchFindsTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := search{from: rapid.IntRange(0, 3000).Draw(t, "from"), most: rapid.IntRange(1, 2000).Draw(t, "most")}
		if rapid.Bool().Draw(t, "inexact") {
			s.precision = 0.05
		}
		limit := rapid.IntRange(0, 2500).Draw(t, "limit")
		probes := 0
		best, err := s.run(t.Context(), func(_ context.Context, n int) (bool, error) {
			probes++
			require.GreaterOrEqual(t, n, 1)
			require.LessOrEqual(t, n, s.most)
			return n <= limit, nil
		})
		require.NoError(t, err)
		want := min(limit, s.most)
		require.LessOrEqual(t, best, want)
		require.LessOrEqual(t, float64(want-best), s.precision*float64(want)+1e-9)
		require.LessOrEqual(t, probes, 26, "each number is asked about at most once, and few are")
	})
}

func TestSearchKeepsWhatItFoundBeforeAnError(t *testing.T) {
	failure := errors.New("no more ports")
	best, err := search{from: 10, most: 100}.run(t.Context(), func(_ context.Context, n int) (bool, error) {
		if n > 10 {
			return false, failure
		}
		return true, nil
	})
	require.ErrorIs(t, err, failure)
	require.Equal(t, 10, best)
}
