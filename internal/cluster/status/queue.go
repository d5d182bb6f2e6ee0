package status

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// statusQueue holds the objects whose status is to be checked, for any writer of statuses. A few
// are written at a time.
type statusQueue struct {
	// queue holds each object once, however often it changes, so it is no longer than the list of
	// objects. A failed object is retried with exponential backoff.
	queue   workqueue.TypedRateLimitingInterface[source.Key]
	metrics *observe.Metrics
	log     *slog.Logger
	// failures is how many writes have failed since the last one that did not.
	failures atomic.Int64
}

// The shortest and the longest backoff.
const (
	minRetry = 200 * time.Millisecond
	maxRetry = time.Minute
)

// workers is how many objects are handled at a time.
const workers = 4

// The results of writing a status, as lateen_status_writes_total has them.
const (
	written   = "written"
	unchanged = "unchanged" // it is there already, e.g. from an attempt whose answer was lost
	gone      = "gone"
	conflict  = "conflict"
	failed    = "error"
)

// newStatusQueue returns a queue that shuts down with ctx. order says which object is next.
func newStatusQueue(
	ctx context.Context, order workqueue.Queue[source.Key], metrics *observe.Metrics, log *slog.Logger,
) *statusQueue {
	inOrder := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[source.Key]{Queue: order})
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[source.Key](minRetry, maxRetry),
		workqueue.TypedRateLimitingQueueConfig[source.Key]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
				workqueue.TypedDelayingQueueConfig[source.Key]{Queue: inOrder},
			),
		},
	)
	context.AfterFunc(ctx, queue.ShutDown)
	return &statusQueue{queue: queue, metrics: metrics, log: log}
}

// inTurn is the order of arrival.
func inTurn() workqueue.Queue[source.Key] { return workqueue.DefaultQueue[source.Key]() }

// parentsFirst is an order in which what routes attach to does not wait for the routes: there are
// few of the one and thousands of the other. Where there are many of both, each gets its turn.
type parentsFirst struct {
	parents, others workqueue.Queue[source.Key]
	ahead           int // parents since the last of the others
}

// parentsAhead is how many parents go before one of the others that waits.
const parentsAhead = 3

func newParentsFirst() workqueue.Queue[source.Key] {
	return &parentsFirst{parents: inTurn(), others: inTurn()}
}

func (p *parentsFirst) of(k source.Key) workqueue.Queue[source.Key] {
	switch k.Kind {
	case kinds.GatewayClass, kinds.KubernetesGateway, kinds.ListenerSet:
		return p.parents
	}
	return p.others
}

// Touch does nothing: an object that is added again keeps its place.
func (p *parentsFirst) Touch(source.Key) {}

// Push adds an object.
func (p *parentsFirst) Push(k source.Key) { p.of(k).Push(k) }

// Len is the number of objects.
func (p *parentsFirst) Len() int { return p.parents.Len() + p.others.Len() }

// Pop takes the next object.
func (p *parentsFirst) Pop() source.Key {
	if p.parents.Len() > 0 && (p.others.Len() == 0 || p.ahead < parentsAhead) {
		p.ahead++
		return p.parents.Pop()
	}
	p.ahead = 0
	return p.others.Pop()
}

// backoff returns how long new work should wait after the failures: nothing without one.
func (q *statusQueue) backoff() time.Duration {
	n := q.failures.Load()
	if n == 0 {
		return 0
	}
	return min(minRetry<<min(n, 16), maxRetry)
}

// retryList calls list until it succeeds; it returns false if ctx ends before.
func (q *statusQueue) retryList(ctx context.Context, kind kinds.Kind, list func() error) bool {
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		err := list()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			q.log.Error("the statuses of objects cannot be read", "kind", string(kind), "error", err)
			q.metrics.Status.Writes.WithLabelValues(failed).Inc()
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// runWorkers handles objects until the queue shuts down.
func (q *statusQueue) runWorkers(ctx context.Context, handle func(source.Key)) {
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				k, shutdown := q.queue.Get()
				if shutdown {
					return
				}
				if ctx.Err() == nil {
					handle(k)
				}
				q.queue.Done(k)
			}
		})
	}
	working.Wait()
}

// outcome returns the result of a patch, and the error if it is to be retried.
func outcome(err error) (result string, _ error) {
	switch {
	case err == nil:
		return written, nil
	case apierrors.IsNotFound(err):
		return gone, nil
	case apierrors.IsConflict(err):
		return conflict, err
	}
	return failed, err
}

// finish counts the result of one object, and retries the object if there is an error.
func (q *statusQueue) finish(k source.Key, result string, err error) {
	q.metrics.Status.Writes.WithLabelValues(result).Inc()
	if err == nil {
		q.failures.Store(0)
		q.queue.Forget(k)
		return
	}
	if result == failed {
		q.failures.Add(1)
		q.log.Warn("a status cannot be written", "object", k.String(), "error", err)
	}
	q.queue.AddRateLimited(k)
}
