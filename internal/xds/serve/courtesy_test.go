package serve

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// somePushes are as the fields say; the zero value is none.
type somePushes struct {
	over <-chan struct{}
	busy time.Time
}

func (p *somePushes) Calm() <-chan struct{}      { return p.over }
func (p *somePushes) BusySince(t time.Time) bool { return p.busy.After(t) }

func TestNewcomersAreFewerWhilePushesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pushes := &somePushes{}
		c := newCourtesy(pushes)
		rate := max(besidePushes*runtime.GOMAXPROCS(0), leastBesidePushes)
		for range rate {
			require.Zero(t, c.newcomer(time.Now()), "there are none")
		}
		pushes.busy = time.Now()
		began := time.Now()
		for range rate {
			pause(t.Context(), c.newcomer(time.Now()))
			pushes.busy = time.Now()
		}
		require.Equal(t, time.Second-admissionBurst, time.Since(began).Round(time.Millisecond))
		require.Zero(t, c.arrival(time.Now()), "connections have a pace of their own")
		pause(t.Context(), pushesGoOn)
		for range rate {
			require.Zero(t, c.newcomer(time.Now()), "they were long ago")
		}
	})
}

func TestGarbageIsCollectedBeforehand(t *testing.T) {
	collected, now := 0, heap{}
	c := &collector{heap: func() heap { return now }, collect: func() { collected++ }}
	for _, one := range []struct {
		heap heap
		want int
	}{
		{heap{used: 89, goal: 100, left: 40}, 0},
		{heap{used: 90, goal: 100, left: 40}, 1},
		{heap{used: 90, goal: 100, left: 70}, 0}, // a memory limit is near: nothing would be gained
		{heap{used: 110, goal: 100, left: 70}, 1},
	} {
		collected, now = 0, one.heap
		c.beforehand()
		require.Equal(t, one.want, collected, "%+v", one.heap)
	}
	real := newCollector().heap()
	require.Positive(t, real.used)
	require.Positive(t, real.goal)
	runtime.GC()
	require.Positive(t, newCollector().heap().left)
}
