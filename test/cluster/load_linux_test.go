package cluster

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pace is the pause between two requests of a steady load, and most how many are under way when
// some take long: on a busy machine, which answers fewer than are sent, more and more would be.
const (
	pace = 5 * time.Millisecond
	most = 32
)

// load is a steady flow of requests to a service that should answer throughout. Several are under
// way when some take long.
type load struct {
	w       *workload
	began   time.Time
	took    time.Duration // valid after end
	stop    chan struct{}
	stopped sync.Once
	done    sync.WaitGroup

	mu     sync.Mutex
	sent   int
	failed []failure
}

type failure struct {
	at time.Time // when it was sent
	answer
}

// steady sends a request again and again, each with a time limit, until the load is ended or the
// test is.
func (w *workload) steady(t *testing.T, url string, limit time.Duration) *load {
	own := *w
	client := *w.http
	client.Timeout = limit
	own.http = &client
	l, underWay := &load{w: &own, began: time.Now(), stop: make(chan struct{})}, make(chan struct{}, most)
	l.done.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			select {
			case underWay <- struct{}{}:
				l.done.Go(func() {
					defer func() { <-underWay }()
					l.request(url)
				})
			default:
			}
		}
	})
	t.Cleanup(l.end)
	l.advance(t, 20)
	return l
}

func (l *load) request(url string) {
	at := time.Now()
	a := l.w.get(url)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if !ok(a) {
		l.failed = append(l.failed, failure{at, a})
	}
}

// advance waits until n more requests were answered, or failed.
func (l *load) advance(t *testing.T, n int) {
	t.Helper()
	target := l.count() + n
	l.w.c.await(t, "requests of the steady load", func() bool { return l.count() >= target })
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

func (l *load) end() {
	l.stopped.Do(func() {
		l.took = time.Since(l.began)
		close(l.stop)
	})
	l.done.Wait()
}

// quiet waits until n requests in a row were answered well.
func (l *load) quiet(t *testing.T, n int) {
	t.Helper()
	failed := -1
	for l.failures() != failed {
		failed = l.failures()
		l.advance(t, n)
	}
}

func (l *load) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failed)
}

// requireNone ends the load and requires that no request failed. It logs the rate that was reached,
// which is below that of pace on a busy machine.
func (l *load) requireNone(t *testing.T) {
	t.Helper()
	l.end()
	t.Logf("%d requests, %.0f a second", l.sent, float64(l.sent)/l.took.Seconds())
	require.Positive(t, l.sent)
	require.Empty(t, l.failed, "of %d requests", l.sent)
}

// since says how many of the requests failed that were sent after a moment, and until when.
func (l *load) since(moment time.Time) string {
	l.end()
	var last time.Duration
	kinds := map[string]int{}
	for _, f := range l.failed {
		last = max(last, f.at.Sub(moment))
		kinds[fmt.Sprint(f.status)]++
	}
	return fmt.Sprintf("%d of %d requests failed, the last one sent after %v, by status %v", len(l.failed), l.sent,
		last.Round(time.Millisecond), kinds)
}
