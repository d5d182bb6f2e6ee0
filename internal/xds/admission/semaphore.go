package admission

import (
	"context"
	"runtime"
)

// Semaphore limits how many do something at a time. It is fair: goroutines that wait to send on a
// channel are served in arrival order. Its capacity is the limit, its length how many hold it.
type Semaphore chan struct{}

// NewSemaphore returns a semaphore with one slot for each CPU.
func NewSemaphore() Semaphore { return make(Semaphore, runtime.GOMAXPROCS(0)) }

// Acquire waits for a slot. It returns the cause if ctx ends before.
func (s Semaphore) Acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Release gives a slot back.
func (s Semaphore) Release() { <-s }
