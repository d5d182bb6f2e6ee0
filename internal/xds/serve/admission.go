package serve

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// admission limits how many streams may begin per second (PILOT_MAX_REQUESTS_PER_SECOND), so that a fleet which comes
// back at once does not get everything at once. It is a bucket of 50 ms' worth of tokens. Streams wait in the order in which they
// came, and are given the state of when their wait is over. One that would have to wait longer than maxAdmissionWait is refused;
// Envoy comes back after its own backoff. So no more streams than begin in that time ever wait.
//
// While memory is tight nobody is admitted: what a stream takes is there before it begins, or it waits.
type admission struct {
	rate  float64     // tokens per second
	tight func() bool // nil: never
	door  turns       // one

	mu     sync.Mutex
	tokens float64 // negative while streams wait
	at     time.Time
}

const (
	// maxAdmissionWait is how long a stream may wait for its token, and how long for memory. A fleet that is larger is spread by the
	// backoff of its Envoys.
	maxAdmissionWait = 10 * time.Second
	// admissionBurst is the time of which so many streams as belong to it may begin at once.
	admissionBurst = 50 * time.Millisecond
	// tightEvery is how often who waits for memory looks whether there is some.
	tightEvery = 50 * time.Millisecond
)

// newAdmission returns a full bucket; rate 0 takes it from the machine's size: an Envoy that comes back and has its
// config costs a fraction of a millisecond, so it is far from istiod's 25 per second.
func newAdmission(rate float64, now time.Time, tight func() bool) *admission {
	if rate <= 0 {
		rate = 500 * float64(runtime.GOMAXPROCS(0))
	}
	a := &admission{rate: rate, at: now, tight: tight, door: make(turns, 1)}
	a.tokens = a.depth()
	return a
}

// depth is how many may begin at once.
func (a *admission) depth() float64 { return max(1, a.rate*admissionBurst.Seconds()) }

// take tells how long to wait for admission, or false if that were too long.
func (a *admission) take(now time.Time) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if elapsed := now.Sub(a.at); elapsed > 0 {
		a.tokens = min(a.tokens+elapsed.Seconds()*a.rate, a.depth())
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
	return ok && pause(ctx, d) && a.roomy(ctx)
}

// roomy waits until there is memory. Those who wait stand at the door, one behind the other, as channels let senders wait.
func (a *admission) roomy(ctx context.Context) bool {
	if a.tight == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, maxAdmissionWait)
	defer cancel()
	if a.door.take(ctx) != nil {
		return false
	}
	defer a.door.give()
	for a.tight() {
		if !pause(ctx, tightEvery) {
			return false
		}
	}
	return true
}

// pause lets time pass; false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
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
