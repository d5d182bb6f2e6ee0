package admission

import (
	"context"
	"sync"
	"time"
)

// tokenBucket limits events to a rate. It holds at most 50 ms' worth of tokens, so a crowd that
// arrives at once is spread over time instead of passing in one burst. Reservations may take the
// bucket below zero: those who reserve then wait, in the order of their calls.
type tokenBucket struct {
	rate float64 // tokens per second

	mu      sync.Mutex
	tokens  float64 // negative while reservations wait
	updated time.Time
}

const (
	// maxWait is the longest wait that a reservation may have. A larger fleet is refused instead
	// and spread by the backoff of its Envoys. So maxWait also bounds how many wait: the rate times
	// 10 s.
	maxWait = 10 * time.Second
	// burstTime is the time whose tokens the bucket can hold.
	burstTime = 50 * time.Millisecond
)

// newTokenBucket returns a full bucket.
func newTokenBucket(rate float64, now time.Time) *tokenBucket {
	b := &tokenBucket{rate: rate, updated: now}
	b.tokens = b.burst()
	return b
}

// burst returns how many tokens a full bucket holds.
func (b *tokenBucket) burst() float64 { return max(1, b.rate*burstTime.Seconds()) }

// reserve takes a token and returns how long to wait until it may be used. It returns false, and
// takes nothing, if that were longer than maxWait.
func (b *tokenBucket) reserve(now time.Time) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if elapsed := now.Sub(b.updated); elapsed > 0 {
		b.tokens = min(b.tokens+elapsed.Seconds()*b.rate, b.burst())
		b.updated = now
	}
	wait := time.Duration(max(1-b.tokens, 0) / b.rate * float64(time.Second))
	if wait > maxWait {
		return 0, false
	}
	b.tokens--
	return wait, true
}

// isFull reports whether the bucket has all the tokens that it can hold.
func (b *tokenBucket) isFull(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tokens+now.Sub(b.updated).Seconds()*b.rate >= b.burst()
}

// Pause waits for d. It returns false if ctx ends before.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
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
