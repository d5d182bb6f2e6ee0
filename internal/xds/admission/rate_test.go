package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRatesAllowSoManyAMinute(t *testing.T) {
	var r Rates[int]
	now := time.Unix(1000, 0)
	for range 10 {
		require.True(t, r.Take(1, 10, now))
	}
	require.False(t, r.Take(1, 10, now))
	require.True(t, r.Take(2, 10, now), "each key has its own")
	now = now.Add(6 * time.Second)
	require.True(t, r.Take(1, 10, now))
	require.False(t, r.Take(1, 10, now))
	for i := range 10 * minSweep {
		r.Take(i, 10, now.Add(time.Duration(i)*time.Second))
	}
	require.LessOrEqual(t, len(r.full), minSweep)
}
