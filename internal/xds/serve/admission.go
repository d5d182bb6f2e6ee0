package serve

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// admission limits how many streams may begin per second (PILOT_MAX_REQUESTS_PER_SECOND), so that a fleet which comes
// back at once does not get everything at once. It is a bucket of one second's worth of tokens. A stream that would have
// to wait longer than a second is refused; Envoy comes back after its own backoff. So no more than two seconds' worth
// of streams ever wait or run out of it.
type admission struct {
	rate float64 // tokens per second

	mu     sync.Mutex
	tokens float64 // negative while streams wait
	at     time.Time
}

// maxAdmissionWait is how long a stream may wait for its token.
const maxAdmissionWait = time.Second

// newAdmission returns a full bucket; rate 0 takes it from the machine's size: an Envoy that comes back and has its
// config costs a fraction of a millisecond, so it is far from istiod's 25 per second.
func newAdmission(rate float64, now time.Time) *admission {
	if rate <= 0 {
		rate = 500 * float64(runtime.GOMAXPROCS(0))
	}
	return &admission{rate: rate, tokens: max(rate, 1), at: now}
}

// take tells how long to wait for admission, or false if that were too long.
func (a *admission) take(now time.Time) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if elapsed := now.Sub(a.at); elapsed > 0 {
		a.tokens = min(a.tokens+elapsed.Seconds()*a.rate, max(a.rate, 1))
		a.at = now
	}
	wait := time.Duration(max(1-a.tokens, 0) / a.rate * float64(time.Second))
	if wait > maxAdmissionWait {
		return 0, false
	}
	a.tokens--
	return wait, true
}

// wait waits until a stream may begin; false if it may not.
func (a *admission) wait(ctx context.Context, now time.Time) bool {
	d, ok := a.take(now)
	if !ok || d == 0 {
		return ok
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
