package admission

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func newShares(rate float64) *Shares[string] {
	return NewShares[string](NewStreamLimiter(rate, nil, time.Now()), NewGate(&fakePushes{}, 0))
}

// Streams of one key beyond its places wait, and those of another begin at once.
func TestSharesLeavePlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(1e6)
		var leave []func()
		for range s.places {
			l, err := s.Enter(t.Context(), "many", time.Now())
			require.NoError(t, err)
			leave = append(leave, l)
		}
		entered := make(chan func(), 1)
		go func() {
			l, _ := s.Enter(t.Context(), "many", time.Now())
			entered <- l
		}()
		synctest.Wait()
		require.Empty(t, entered)
		other, err := s.Enter(t.Context(), "one", time.Now())
		require.NoError(t, err)
		other()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Enter(ended, "many", time.Now())
		require.ErrorIs(t, err, context.Canceled)
		leave[0]()
		leave[0]() // counts once
		leave = append(leave, <-entered)
		for _, l := range leave[1:] {
			l()
		}
		for _, of := range s.known {
			require.Zero(t, of.users)
			require.Empty(t, of.places)
		}
	})
}

func TestSharesRefuseAKeyWithTooHighARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 400
		s := newShares(rate)
		began := time.Now()
		for range 2 * rate / shareOfAll {
			require.True(t, s.Wait(t.Context(), "many", time.Now()))
		}
		require.Greater(t, time.Since(began), time.Second)
		now := time.Now()
		for range 2 * rate / shareOfAll * int(maxWait/time.Second) {
			s.known["many"].bucket.reserve(now)
		}
		require.False(t, s.Wait(t.Context(), "many", now))
		require.True(t, s.Wait(t.Context(), "one", now))
		require.Equal(t, now, time.Now(), "it need not wait")
		require.Zero(t, s.known["many"].users)
	})
}

func TestSharesForgetUnusedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(1000)
		for i := range 10 * minSweep {
			require.True(t, s.Wait(t.Context(), string(rune(i+1)), time.Now()))
			require.True(t, Pause(t.Context(), time.Millisecond))
		}
		require.LessOrEqual(t, len(s.known), minSweep+1)
	})
}

func TestQuotaIsPerKeyAndForgetsKeys(t *testing.T) {
	var q Quota[string]
	_, ok := q.Take("a", 2, 3)
	require.True(t, ok)
	had, ok := q.Take("a", 2, 3)
	require.False(t, ok)
	require.Equal(t, 2, had)
	_, ok = q.Take("b", 3, 3)
	require.True(t, ok)
	_, ok = q.Take("b", -1, 0)
	require.True(t, ok, "less is always right")
	q.Return("a", 2)
	q.Return("b", 2)
	require.Empty(t, q.used)
}
