package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// 5,000 streams that begin in the same second are admitted in the order in which they came, at the
// rate, and none is refused.
func TestAdmissionIsInOrder(t *testing.T) {
	const streams, rate = 5000, 1000
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := NewStreamLimiter(rate, nil, began)
		var order []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range streams {
			Pause(t.Context(), time.Second/streams)
			all.Go(func() {
				require.True(t, l.Wait(t.Context(), time.Now()))
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

// While memory is tight streams wait, one behind the other. After 10 s they are refused.
func TestStreamLimiterWaitsForMemoryUpTo10s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tight, polls atomic.Int64
		tight.Store(1)
		l := NewStreamLimiter(1000, func() bool { polls.Add(1); return tight.Load() > 0 }, time.Now())
		var admitted, refused atomic.Int64
		for range 100 {
			go func() {
				if l.Wait(t.Context(), time.Now()) {
					admitted.Add(1)
				} else {
					refused.Add(1)
				}
			}()
		}
		Pause(t.Context(), maxWait/2)
		synctest.Wait()
		require.Zero(t, admitted.Load()+refused.Load())
		require.EqualValues(t, maxWait/2/memoryPoll, polls.Load()-1, "one polls for all")
		tight.Store(0)
		Pause(t.Context(), memoryPoll)
		synctest.Wait()
		require.EqualValues(t, 100, admitted.Load())

		tight.Store(1)
		began := time.Now()
		require.False(t, l.Wait(t.Context(), began))
		require.Equal(t, maxWait, time.Since(began))
	})
}

func TestStreamLimiterRefusesAStreamThatHasEnded(t *testing.T) {
	now := time.Unix(1000, 0)
	l := NewStreamLimiter(1, nil, now)
	require.True(t, l.Wait(t.Context(), now))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, l.Wait(ctx, now))
}

func TestStreamLimiterDefaultsTo500PerCPU(t *testing.T) {
	require.GreaterOrEqual(t, NewStreamLimiter(0, nil, time.Now()).bucket.rate, 500.0)
}
