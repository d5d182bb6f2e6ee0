package serve

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAdmissionLetsABurstInAndSpreadsTheRest(t *testing.T) {
	now := time.Unix(1000, 0)
	a := newAdmission(200, now, nil)
	for range 10 {
		wait, ok := a.take(now)
		require.True(t, ok)
		require.Zero(t, wait)
	}
	for i := range 2000 {
		wait, ok := a.take(now)
		require.True(t, ok)
		require.InDelta(t, float64(i+1)/200, wait.Seconds(), 1e-6)
	}
	_, ok := a.take(now)
	require.False(t, ok, "would have to wait more than ten seconds")

	wait, ok := a.take(now.Add(time.Minute))
	require.True(t, ok)
	require.Zero(t, wait)
	for range 9 {
		_, ok = a.take(now) // a clock that goes back gives nothing
		require.True(t, ok)
	}
	wait, ok = a.take(now.Add(time.Minute))
	require.True(t, ok)
	require.Positive(t, wait, "a bucket holds no more than 50 ms' worth")
}

// 5,000 streams that begin in the same second are admitted in the order in which they came, at the rate, and none is refused.
func TestAdmissionIsInOrder(t *testing.T) {
	const streams, rate = 5000, 1000
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := newAdmission(rate, began, nil)
		var order []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range streams {
			pause(t.Context(), time.Second/streams)
			all.Go(func() {
				require.True(t, a.wait(t.Context(), time.Now()))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
		}
		all.Wait()
		for i, stream := range order {
			require.Equal(t, i, stream)
		}
		require.Equal(t, (streams-rate/20)*time.Second/rate, time.Since(began).Round(time.Millisecond))
	})
}

// While memory is tight streams wait, one behind the other; some wait in vain.
func TestAdmissionWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tight, looks atomic.Int64
		tight.Store(1)
		a := newAdmission(1000, time.Now(), func() bool { looks.Add(1); return tight.Load() > 0 })
		var admitted, refused atomic.Int64
		for range 100 {
			go func() {
				if a.wait(t.Context(), time.Now()) {
					admitted.Add(1)
				} else {
					refused.Add(1)
				}
			}()
		}
		pause(t.Context(), maxAdmissionWait/2)
		synctest.Wait()
		require.Zero(t, admitted.Load()+refused.Load())
		require.EqualValues(t, maxAdmissionWait/2/tightEvery, looks.Load()-1, "one looks for all")
		tight.Store(0)
		pause(t.Context(), tightEvery)
		synctest.Wait()
		require.EqualValues(t, 100, admitted.Load())

		tight.Store(1)
		began := time.Now()
		require.False(t, a.wait(t.Context(), began))
		require.Equal(t, maxAdmissionWait, time.Since(began))
	})
}

func TestAdmissionEndsWithTheStream(t *testing.T) {
	now := time.Unix(1000, 0)
	a := newAdmission(1, now, nil)
	require.True(t, a.wait(t.Context(), now))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, a.wait(ctx, now))
}

func TestAdmissionIsGenerousUnlessToldOtherwise(t *testing.T) {
	require.GreaterOrEqual(t, newAdmission(0, time.Now(), nil).rate, 500.0)
}
