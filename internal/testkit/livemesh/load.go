package livemesh

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// loadPace is the pause between two requests of a steady load.
const loadPace = 4 * time.Millisecond

// Load is a steady flow of requests to a route that should serve throughout.
type Load struct {
	m      *Mesh
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	sent   int
	failed []Answer
}

// Load starts to send a request again and again, until Stop, or the end of the test, which each
// require that none failed.
func (c *Client) Load(target string, options ...Option) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{m: c.m, cancel: cancel}
	l.done.Go(func() {
		tick := time.NewTicker(loadPace)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			l.note(c.Do(context.Background(), target, options...)) // the one under way is finished
		}
	})
	c.m.t.Cleanup(l.end)
	return l
}

func (l *Load) note(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if !a.OK() {
		l.failed = append(l.failed, a)
	}
}

// Advance waits until n more requests were answered.
func (l *Load) Advance(n int) {
	l.m.t.Helper()
	target := l.Sent() + n
	l.m.Await("requests of the steady load", func() bool { return l.Sent() >= target })
}

// Sent is how many requests were answered, or failed.
func (l *Load) Sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// Stop ends the load and requires that it was one, and that no request failed.
func (l *Load) Stop() {
	l.m.t.Helper()
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(l.m.t, l.failed, "of %d requests of the steady load", l.sent)
	require.Positive(l.m.t, l.sent)
}

func (l *Load) end() {
	l.cancel()
	l.done.Wait()
}
