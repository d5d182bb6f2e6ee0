package admission

import (
	"context"
	"runtime"
	"time"
)

// StreamLimiter limits how many streams begin per second (PILOT_MAX_REQUESTS_PER_SECOND), so that a
// fleet which reconnects at once does not get everything at once. Streams wait in arrival order and
// get the state of the time when their wait ends. A stream that would have to wait for more than 10
// s is refused; Envoy reconnects after its own backoff.
//
// While memory is tight no stream begins.
type StreamLimiter struct {
	bucket      *tokenBucket
	memoryTight func() bool // nil: never
	checking    Semaphore   // one stream at a time polls memoryTight
}

const (
	// streamsPerCPU is the default rate. An Envoy that reconnects and is up to date costs a
	// fraction of a millisecond, so the rate is far above istiod's 25 per second.
	streamsPerCPU = 500
	// memoryPoll is how often memoryTight is asked while a stream waits for memory.
	memoryPoll = 50 * time.Millisecond
)

// NewStreamLimiter returns a limiter of rate streams per second; 0 means 500 for each CPU.
// memoryTight reports whether there is no memory for further streams. It is called by one goroutine
// at a time and may be nil.
func NewStreamLimiter(rate float64, memoryTight func() bool, now time.Time) *StreamLimiter {
	if rate <= 0 {
		rate = streamsPerCPU * float64(runtime.GOMAXPROCS(0))
	}
	return &StreamLimiter{bucket: newTokenBucket(rate, now), memoryTight: memoryTight, checking: make(Semaphore, 1)}
}

// Wait waits until a stream may begin. It returns false if the stream is refused: the rate or a
// lack of memory would make it wait for more than 10 s, or ctx has ended.
func (l *StreamLimiter) Wait(ctx context.Context, now time.Time) bool {
	d, ok := l.bucket.reserve(now)
	return ok && Pause(ctx, d) && l.waitForMemory(ctx)
}

// waitForMemory waits until memory is no longer tight, for maxWait at most. One stream polls; the
// others queue behind it for the semaphore.
func (l *StreamLimiter) waitForMemory(ctx context.Context) bool {
	if l.memoryTight == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if l.checking.Acquire(ctx) != nil {
		return false
	}
	defer l.checking.Release()
	for l.memoryTight() {
		if !Pause(ctx, memoryPoll) {
			return false
		}
	}
	return true
}
