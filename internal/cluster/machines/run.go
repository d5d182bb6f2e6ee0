package machines

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Run writes until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, r.queue.ShutDown)
	defer stop()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for r.handleNext(ctx) {
			}
		})
	}
	running.Go(func() { r.sweepAlways(ctx, false) })
	running.Wait()
}

// handleNext handles the next entry of the queue. It reports false once the queue is shut down.
func (r *Registry) handleNext(ctx context.Context) bool {
	key, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(key)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	rec, known := r.copyOf(key)
	if !known {
		r.queue.Forget(key)
		return true
	}
	again, err := r.reconcile(ctx, key, rec)
	switch {
	case isFinal(err):
		r.refuse(key, err)
		again = refusedFor // a connection that has not ended, or for which somebody mends it
	case err != nil:
		r.retry(key, err)
		return true
	}
	r.queue.Forget(key)
	if again > 0 {
		r.queue.AddAfter(key, again)
	}
	return true
}

func (r *Registry) retry(key types.NamespacedName, err error) {
	r.o.Metrics.Errors.Inc()
	if skipped, ok := r.logLimit.Allow("failed", r.o.Now()); ok {
		r.o.Log.Warn("a machine's WorkloadEntry is not as it should be; trying again", "entry", key, "error", err,
			"lines_left_out", skipped)
	}
	r.queue.AddRateLimited(key)
}

// copyOf returns a record as it is now, without its connections.
func (r *Registry) copyOf(key types.NamespacedName) (record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.records[key]
	if rec == nil {
		return record{}, false
	}
	c := *rec
	c.connections = nil
	return c, true
}
