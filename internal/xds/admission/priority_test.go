package admission

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fakePushes reports what its fields say; the zero value reports no pushes.
type fakePushes struct {
	calm <-chan struct{}
	busy time.Time
}

func (p *fakePushes) Calm() <-chan struct{}      { return p.calm }
func (p *fakePushes) BusySince(t time.Time) bool { return p.busy.After(t) }

func TestNewStreamsAreLimitedWithinASecondOfPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pushes := &fakePushes{}
		p := newPushPriority(pushes)
		rate := max(newPerCPU*runtime.GOMAXPROCS(0), minNew)
		for range rate {
			require.Zero(t, p.delayFirstResponse(time.Now()), "there are no pushes")
		}
		pushes.busy = time.Now()
		began := time.Now()
		for range rate {
			Pause(t.Context(), p.delayFirstResponse(time.Now()))
			pushes.busy = time.Now()
		}
		require.Equal(t, time.Second-burstTime, time.Since(began).Round(time.Millisecond))
		require.Zero(t, p.delayAccept(time.Now()), "connections have a bucket of their own")
		Pause(t.Context(), pushesLast)
		for range rate {
			require.Zero(t, p.delayFirstResponse(time.Now()), "the pushes were long ago")
		}
	})
}
