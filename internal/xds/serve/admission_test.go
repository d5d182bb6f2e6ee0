package serve

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAdmissionLetsABurstInAndSpreadsTheRest(t *testing.T) {
	now := time.Unix(1000, 0)
	a := newAdmission(10, now)
	for range 10 {
		wait, ok := a.take(now)
		require.True(t, ok)
		require.Zero(t, wait)
	}
	for i := range 10 {
		wait, ok := a.take(now)
		require.True(t, ok)
		require.InDelta(t, float64(i+1)*0.1, wait.Seconds(), 1e-6)
	}
	_, ok := a.take(now)
	require.False(t, ok, "would have to wait more than a second")

	wait, ok := a.take(now.Add(time.Minute))
	require.True(t, ok)
	require.Zero(t, wait)
	for range 9 {
		_, ok = a.take(now) // a clock that goes back gives nothing
		require.True(t, ok)
	}
	wait, ok = a.take(now.Add(time.Minute))
	require.True(t, ok)
	require.Positive(t, wait, "a bucket holds no more than a second's worth")
}

func TestAdmissionEndsWithTheStream(t *testing.T) {
	now := time.Unix(1000, 0)
	a := newAdmission(1, now)
	require.True(t, a.wait(t.Context(), now))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, a.wait(ctx, now))
}

func TestAdmissionIsGenerousUnlessToldOtherwise(t *testing.T) {
	require.GreaterOrEqual(t, newAdmission(0, time.Now()).rate, 500.0)
}
