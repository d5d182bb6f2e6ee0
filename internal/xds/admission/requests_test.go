package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRequestBudgetIsABurstAndThenARate(t *testing.T) {
	var b RequestBudget
	for range RequestBurst {
		require.Zero(t, b.Take(time.Minute))
	}
	require.Equal(t, requestInterval, b.Take(time.Minute))
	require.Equal(t, 2*requestInterval, b.Take(time.Minute))
	require.Equal(t, 2*requestInterval, b.Take(time.Minute+requestInterval))
	require.Zero(t, b.Take(2*time.Minute), "the client has paused")
	for range RequestBurst - 1 {
		require.Zero(t, b.Take(2*time.Minute))
	}
	require.Equal(t, requestInterval, b.Take(2*time.Minute), "no more than one burst is saved up")
}
