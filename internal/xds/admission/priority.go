package admission

import (
	"runtime"
	"time"
)

// pushPriority limits new streams while pushes go on, which leaves most of the CPU to the pushes:
// with all CPUs busy, a push waits for one at each of its steps. Only pushes to many connections
// count; those to a few take next to no time.
type pushPriority struct {
	pushes Pushes
	gc     *earlyGC
	// The buckets of connections and of first responses. Each has the same rate.
	accepts, firstResponses *tokenBucket
}

// Pushes reports whether pushes to connected streams are under way. fanout.Hub implements it.
type Pushes interface {
	// Calm returns a channel that is closed when no push is under way, or nil if none is.
	Calm() <-chan struct{}
	// BusySince reports whether there were pushes to many connections in succession since t.
	BusySince(t time.Time) bool
}

const (
	// newPerCPU is the rate of new streams per second for each CPU while pushes go on, and minNew
	// is the least for all CPUs together. At 400 per second the last of the 4,096 connections in
	// the kernel's queue is accepted after 10 s, half of the 20 s after which gRPC clients give up.
	newPerCPU, minNew = 200, 400
	// pushesLast is for how long after a push to many others are expected.
	pushesLast = time.Second
)

func newPushPriority(p Pushes) *pushPriority {
	rate, now := float64(max(newPerCPU*runtime.GOMAXPROCS(0), minNew)), time.Now()
	return &pushPriority{
		pushes:         p,
		gc:             newEarlyGC(),
		accepts:        newTokenBucket(rate, now),
		firstResponses: newTokenBucket(rate, now),
	}
}

// delayAccept returns for how long the next connection is to wait. Its caller accepts one
// connection at a time, so the wait is never longer than one token takes.
func (p *pushPriority) delayAccept(now time.Time) time.Duration { return p.delay(p.accepts, now) }

// delayFirstResponse returns for how long the first responses of a stream are to wait. As many
// callers as there are CPUs wait at a time, so the wait is never longer than their tokens take.
func (p *pushPriority) delayFirstResponse(now time.Time) time.Duration {
	return p.delay(p.firstResponses, now)
}

func (p *pushPriority) delay(b *tokenBucket, now time.Time) time.Duration {
	if !p.pushes.BusySince(now.Add(-pushesLast)) {
		return 0
	}
	p.gc.collectIfNear()
	wait, _ := b.reserve(now)
	return wait
}
