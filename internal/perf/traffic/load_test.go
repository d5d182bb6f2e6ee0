package traffic

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// stalling answers at once, but for one request that takes a while.
type stalling struct {
	mu     sync.Mutex
	sent   int
	stall  int // the number of the request that stalls
	pause  time.Duration
	failed error
}

func (s *stalling) do(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent++; s.sent == s.stall {
		<-time.After(s.pause)
	}
	return s.failed
}

func (*stalling) close() {}

// TestWaitingRequestsCountTheirWait: a server that stops for a second delays all requests that were
// due in it, on each connection, and not only the one that it holds up.
func TestWaitingRequestsCountTheirWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stalling{stall: 100, pause: time.Second}
		c := &connection{
			client: s, errors: map[string]int{},
			load: Load{QPS: 100, Connections: 1, Duration: 3 * time.Second},
		}
		c.sendOnTime(t.Context(), time.Now())
		require.Len(t, c.latency, 300)
		require.Equal(t, 300, s.sent)
		delayed := 0
		for _, d := range c.latency {
			if d > 0 {
				delayed++
			}
		}
		require.Equal(t, 100, delayed, "what was due in the second in which the server stopped")
		require.Equal(t, time.Second, c.latency[99])
		require.Equal(t, 990*time.Millisecond, c.latency[100])
		require.Zero(t, c.latency[299])
	})
}

func TestAServerThatNeverCatchesUpEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &connection{
			client: &stalling{stall: 1, pause: time.Minute}, errors: map[string]int{},
			load: Load{QPS: 10, Connections: 1, Duration: time.Second},
		}
		c.sendOnTime(t.Context(), time.Now())
		require.Len(t, c.latency, 1)
		require.Equal(t, 9, c.unsent)
	})
}

func TestFailuresAreCountedByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &connection{
			client: &stalling{failed: errors.New("status 503")}, errors: map[string]int{},
			load: Load{QPS: 10, Connections: 2, Duration: time.Second},
		}
		c.sendOnTime(t.Context(), time.Now())
		r := Result{Errors: map[string]int{}, Late: measure.NewDistribution()}
		r.add(c)
		require.Equal(t, 5, r.Sent)
		require.Equal(t, 5, r.Failed)
		require.Zero(t, r.Answered)
		require.Equal(t, map[string]int{"status 503": 5}, r.Errors)
	})
}

func TestLoadsNameWhatIsWrong(t *testing.T) {
	good := Load{Connections: 1, Duration: time.Second, Target: Target{Protocol: HTTP1}}
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(l *Load){
		"connections 0: want 1 or more": func(l *Load) { l.Connections = 0 },
		"qps -1: want 0":                func(l *Load) { l.QPS = -1 },
		"duration 0s: want":             func(l *Load) { l.Duration = 0 },
		"payload -1 bytes: want 0":      func(l *Load) { l.Target.Payload = -1 },
	} {
		l := good
		change(&l)
		require.ErrorContains(t, l.Validate(), want)
	}
	_, err := Target{Protocol: "udp"}.open()
	require.ErrorContains(t, err, `protocol "udp": want one of http, http2, grpc, tcp`)
}
