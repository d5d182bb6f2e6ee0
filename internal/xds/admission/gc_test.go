package admission

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEarlyGCCollectsAtNineTenthsOfTheGoal(t *testing.T) {
	collected, now := 0, heapStats{}
	c := &earlyGC{heap: func() heapStats { return now }, collect: func() { collected++ }}
	for _, one := range []struct {
		heap heapStats
		want int
	}{
		{heapStats{used: 89, goal: 100, live: 40}, 0},
		{heapStats{used: 90, goal: 100, live: 40}, 1},
		{heapStats{used: 90, goal: 100, live: 70}, 0}, // a memory limit is near: nothing would be gained
		{heapStats{used: 110, goal: 100, live: 70}, 1},
	} {
		collected, now = 0, one.heap
		c.collectIfNear()
		require.Equal(t, one.want, collected, "%+v", one.heap)
	}
	real := newEarlyGC().heap()
	require.Positive(t, real.used)
	require.Positive(t, real.goal)
	runtime.GC()
	require.Positive(t, newEarlyGC().heap().live)
}
