package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTokenBucketPassesABurstOf50msAndSpreadsTheRest(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newTokenBucket(200, now)
	for range 10 {
		wait, ok := b.reserve(now)
		require.True(t, ok)
		require.Zero(t, wait)
	}
	for i := range 2000 {
		wait, ok := b.reserve(now)
		require.True(t, ok)
		require.InDelta(t, float64(i+1)/200, wait.Seconds(), 1e-6)
	}
	_, ok := b.reserve(now)
	require.False(t, ok, "would have to wait for more than ten seconds")

	wait, ok := b.reserve(now.Add(time.Minute))
	require.True(t, ok)
	require.Zero(t, wait)
	for range 9 {
		_, ok = b.reserve(now) // a clock that goes back adds nothing
		require.True(t, ok)
	}
	wait, ok = b.reserve(now.Add(time.Minute))
	require.True(t, ok)
	require.Positive(t, wait, "a bucket holds no more than 50 ms' worth")
}
