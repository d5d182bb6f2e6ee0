package status

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// WriterOptions are what a Writer needs.
type WriterOptions struct {
	Tracker *Tracker
	API     API
	Metrics *observe.Metrics
	Log     *slog.Logger
	Now     func() time.Time
}

// Writer writes the condition of objects until it agrees with the Tracker.
type Writer struct {
	WriterOptions
	*statusQueue

	known *standing[condition]
	// pace is the time between two objects of the backlog.
	pace time.Duration
	// waiting is how many objects of the backlog are not queued yet.
	waiting atomic.Int64
}

// backlogPace is the time between two objects of the backlog. Each takes two requests, so the
// backlog takes up to half of requestsPerSecond, and the other half is for what changes meanwhile.
const backlogPace = 200 * time.Millisecond

// NewWriter returns a Writer for one term as the leader.
func NewWriter(o WriterOptions) *Writer {
	return &Writer{WriterOptions: o, known: newStanding[condition](), pace: backlogPace}
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	select { // before the first state is compiled, nothing is known to be right
	case <-w.Tracker.firstBatch:
	case <-ctx.Done():
		return
	}
	w.statusQueue = newStatusQueue(ctx, inTurn(), w.Metrics, w.Log)
	if !w.readExisting(ctx) {
		return
	}
	keys := w.Tracker.listen(w.queue.Add)
	defer w.Tracker.listen(nil)
	backlog := w.sortOut(keys)
	var feeding sync.WaitGroup
	feeding.Go(func() { w.feed(ctx, backlog) })
	w.runWorkers(ctx, func(k source.Key) {
		w.handle(ctx, k)
		w.countPending()
	})
	feeding.Wait()
}

// countPending sets the metric of what waits, queued or not.
func (w *Writer) countPending() {
	w.Metrics.Status.Pending.Set(float64(w.queue.Len()) + float64(w.waiting.Load()))
}

// sortOut queues the objects with problems, and returns those without whose condition differs.
func (w *Writer) sortOut(keys []source.Key) (backlog []source.Key) {
	for _, k := range keys {
		observation, exists := w.Tracker.Get(k)
		known, told := w.known.lookup(k)
		switch {
		case !exists, told && known.sameContent(conditionOf(observation)):
		case len(observation.Problems) > 0:
			w.queue.Add(k)
		default:
			backlog = append(backlog, k)
		}
	}
	return backlog
}

// feed queues the backlog at its pace, and more slowly while writing fails.
func (w *Writer) feed(ctx context.Context, backlog []source.Key) {
	w.waiting.Store(int64(len(backlog)))
	for i, k := range backlog {
		w.queue.Add(k)
		w.waiting.Store(int64(len(backlog) - i - 1))
		w.countPending()
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(w.pace, w.backoff())):
		}
	}
}

// readExisting lists the objects that have the condition. A kind that is not installed has none.
func (w *Writer) readExisting(ctx context.Context) bool {
	for _, d := range kinds.WithStatus(kinds.Conditions) {
		kind := d.Kind
		list := func() error {
			err := w.API.list(ctx, kind, func(l *liveObject) {
				if c, at := l.own(); at >= 0 {
					w.known.remember(source.Key{Kind: kind, Namespace: l.Metadata.Namespace, Name: l.Metadata.Name}, c)
				}
			})
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && kinds.Of(kind).Kind == "" {
				return nil // without rights to kinds that are only reported the others go on
			}
			return err
		}
		if !w.retryList(ctx, kind, list) {
			return false
		}
	}
	return true
}

// handle writes the status of one object if it differs, and schedules a retry if that fails.
func (w *Writer) handle(ctx context.Context, k source.Key) {
	observation, exists := w.Tracker.Get(k)
	want := conditionOf(observation)
	known, told := w.known.lookup(k)
	switch {
	case !exists: // it is gone, or soon will be
		w.known.forget(k)
		w.queue.Forget(k)
		return
	case told && known.sameContent(want):
		w.queue.Forget(k)
		return
	}
	if result, err := w.write(ctx, k, want); ctx.Err() == nil {
		w.finish(k, result, err)
	}
}

func (w *Writer) write(ctx context.Context, k source.Key, want condition) (result string, err error) {
	present, err := w.API.get(ctx, k)
	if apierrors.IsNotFound(err) {
		w.known.forget(k)
		return gone, nil
	}
	if err != nil {
		return failed, err
	}
	if want.ObservedGeneration == 0 { // it could not be read, so that nobody told which one
		want.ObservedGeneration = present.Metadata.Generation
	}
	if before, at := present.own(); at >= 0 && before.sameContent(want) {
		w.known.remember(k, want)
		return unchanged, nil
	}
	body, err := present.patch(want, w.Now())
	if err != nil {
		return failed, err
	}
	result, err = outcome(w.API.patch(ctx, k, body))
	switch result {
	case written:
		w.known.remember(k, want)
	case gone:
		w.known.forget(k)
	}
	return result, err
}
