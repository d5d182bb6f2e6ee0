package status

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// desk is what all writers of statuses have: objects to look at, of which a few are written at a
// time.
type desk struct {
	// queue holds the names of the objects, each once, however much happens to it: it is no longer
	// than there are objects. What fails comes again, later each time.
	queue   workqueue.TypedRateLimitingInterface[source.Key]
	metrics *observe.Metrics
	log     *slog.Logger
}

// How long what failed waits: at first, and at most.
const (
	retrySoon = 200 * time.Millisecond
	retryLate = time.Minute
)

// workers is how many objects are written at a time.
const workers = 4

// The results of writing a status, as lateen_status_writes_total has them.
const (
	written   = "written"
	unchanged = "unchanged" // it stood there already, as when the connection broke after the last attempt
	gone      = "gone"
	conflict  = "conflict"
	failed    = "error"
)

// newDesk is a desk whose queue ends with ctx.
func newDesk(ctx context.Context, metrics *observe.Metrics, log *slog.Logger) *desk {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[source.Key](retrySoon, retryLate),
	)
	context.AfterFunc(ctx, queue.ShutDown)
	return &desk{queue: queue, metrics: metrics, log: log}
}

// read lists a kind, again and again until it works; false if ctx ends before.
func (d *desk) read(ctx context.Context, kind kinds.Kind, list func() error) bool {
	for wait := retrySoon; ; wait = min(2*wait, retryLate) {
		err := list()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			d.log.Error("the statuses of objects cannot be read", "kind", string(kind), "error", err)
			d.metrics.Status.Writes.WithLabelValues(failed).Inc()
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// work handles objects until the queue ends.
func (d *desk) work(ctx context.Context, handle func(source.Key)) {
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				k, shutdown := d.queue.Get()
				if shutdown {
					return
				}
				if ctx.Err() == nil {
					handle(k)
				}
				d.queue.Done(k)
			}
		})
	}
	working.Wait()
}

// outcome is what a patch came to, and the error if it is to be tried again.
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

// wrote notes what writing a status came to, and whether it is to be tried again.
func (d *desk) wrote(k source.Key, result string, err error) {
	d.metrics.Status.Writes.WithLabelValues(result).Inc()
	if err == nil {
		d.queue.Forget(k)
		return
	}
	if result == failed {
		d.log.Warn("a status cannot be written", "object", k.String(), "error", err)
	}
	d.queue.AddRateLimited(k)
}
