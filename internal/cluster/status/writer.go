package status

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Scope says which objects get a status.
type Scope uint8

// The scopes.
const (
	// Problems stands for objects with problems, those that have the condition already, and those
	// that a user writes while the process runs, so that kubectl can wait for the condition. It
	// costs one more write for each write of a user, and none when the process starts.
	Problems Scope = iota
	// Everything stands for each object, those too that were there before.
	Everything
	// Nothing turns the writing off.
	Nothing
)

// WriterOptions are what a Writer needs.
type WriterOptions struct {
	Tracker *Tracker
	API     API
	Scope   Scope
	Metrics *observe.Metrics
	Log     *slog.Logger
	Now     func() time.Time
}

// Writer writes the condition of objects until it agrees with the Tracker.
type Writer struct {
	WriterOptions
	*statusQueue

	mu    sync.Mutex
	known map[source.Key]condition // as they stand in the API server
}

// NewWriter returns a Writer for one term as the leader.
func NewWriter(o WriterOptions) *Writer {
	return &Writer{WriterOptions: o, known: map[source.Key]condition{}}
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	if w.Scope == Nothing {
		return
	}
	select { // before the first state is compiled, nothing is known to be right
	case <-w.Tracker.firstBatch:
	case <-ctx.Done():
		return
	}
	w.statusQueue = newStatusQueue(ctx, w.Metrics, w.Log)
	if !w.readExisting(ctx) {
		return
	}
	keys := w.Tracker.listen(w.queue.Add)
	defer w.Tracker.listen(nil)
	for _, k := range keys {
		w.queue.Add(k)
	}
	w.runWorkers(ctx, func(k source.Key) {
		w.handle(ctx, k)
		w.Metrics.Status.Pending.Set(float64(w.queue.Len()))
	})
}

// readExisting lists the objects that have the condition. A kind that is not installed has none.
func (w *Writer) readExisting(ctx context.Context) bool {
	for _, d := range kinds.WithStatus(kinds.Conditions) {
		kind := d.Kind
		list := func() error {
			err := w.API.list(ctx, kind, func(l *liveObject) {
				if c, at := l.own(); at >= 0 {
					w.known[source.Key{Kind: kind, Namespace: l.Metadata.Namespace, Name: l.Metadata.Name}] = c
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
	known, told := w.lookup(k)
	switch {
	case !exists: // it is gone, or soon will be
		w.remember(k, nil)
		w.queue.Forget(k)
		return
	case told && known.sameContent(want),
		!told && w.Scope == Problems && len(observation.Problems) == 0 && !observation.Written:
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
		w.remember(k, nil)
		return gone, nil
	}
	if err != nil {
		return failed, err
	}
	if want.ObservedGeneration == 0 { // it could not be read, so that nobody told which one
		want.ObservedGeneration = present.Metadata.Generation
	}
	if before, at := present.own(); at >= 0 && before.sameContent(want) {
		w.remember(k, &want)
		return unchanged, nil
	}
	body, err := present.patch(want, w.Now())
	if err != nil {
		return failed, err
	}
	result, err = outcome(w.API.patch(ctx, k, body))
	switch result {
	case written:
		w.remember(k, &want)
	case gone:
		w.remember(k, nil)
	}
	return result, err
}

func (w *Writer) lookup(k source.Key) (condition, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.known[k]
	return c, ok
}

func (w *Writer) remember(k source.Key, c *condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c == nil {
		delete(w.known, k)
		return
	}
	w.known[k] = *c
}
