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

// Scope says which objects have a status written.
type Scope uint8

// The scopes.
const (
	// Problems: objects that something is wrong with, and those that have had the condition once.
	Problems Scope = iota
	// Everything: each object, which is one write more for each that a user makes.
	Everything
	// Nothing is written.
	Nothing
)

// WriterOptions are what a Writer needs.
type WriterOptions struct {
	Board   *Board
	API     API
	Scope   Scope
	Metrics *observe.Metrics
	Log     *slog.Logger
	Now     func() time.Time
}

// Writer brings the statuses of objects to what the Board says.
type Writer struct {
	WriterOptions
	*desk

	mu    sync.Mutex
	known map[source.Key]condition // as they stand in the API server
}

// NewWriter makes a Writer for one time as the leader.
func NewWriter(o WriterOptions) *Writer {
	return &Writer{WriterOptions: o, known: map[source.Key]condition{}}
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	if w.Scope == Nothing {
		return
	}
	select { // before the first state is compiled, nothing is known to be right
	case <-w.Board.complete:
	case <-ctx.Done():
		return
	}
	w.desk = newDesk(ctx, w.Metrics, w.Log)
	if !w.learn(ctx) {
		return
	}
	keys := w.Board.listen(w.queue.Add)
	defer w.Board.listen(nil)
	for _, k := range keys {
		w.queue.Add(k)
	}
	w.work(ctx, func(k source.Key) {
		w.handle(ctx, k)
		w.Metrics.Status.Pending.Set(float64(w.queue.Len()))
	})
}

// learn reads which objects have the condition. Kinds that are not installed have no objects.
func (w *Writer) learn(ctx context.Context) bool {
	for _, d := range kinds.WithStatus(kinds.Conditions) {
		kind := d.Kind
		list := func() error {
			err := w.API.list(ctx, kind, func(l *live) {
				if c, at := l.own(); at >= 0 {
					w.known[source.Key{Kind: kind, Namespace: l.Metadata.Namespace, Name: l.Metadata.Name}] = c
				}
			})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		if !w.read(ctx, kind, list) {
			return false
		}
	}
	return true
}

// handle writes the status of one object if it differs, and says when to try again.
func (w *Writer) handle(ctx context.Context, k source.Key) {
	opinion, exists := w.Board.Of(k)
	want := conditionOf(opinion)
	known, told := w.what(k)
	switch {
	case !exists: // it is gone, or soon will be
		w.know(k, nil)
		w.queue.Forget(k)
		return
	case told && known.says(want), !told && w.Scope == Problems && len(opinion.Problems) == 0:
		w.queue.Forget(k)
		return
	}
	if result, err := w.write(ctx, k, want); ctx.Err() == nil {
		w.wrote(k, result, err)
	}
}

func (w *Writer) write(ctx context.Context, k source.Key, want condition) (result string, err error) {
	present, err := w.API.get(ctx, k)
	if apierrors.IsNotFound(err) {
		w.know(k, nil)
		return gone, nil
	}
	if err != nil {
		return failed, err
	}
	if want.ObservedGeneration == 0 { // it could not be read, so that nobody told which one
		want.ObservedGeneration = present.Metadata.Generation
	}
	if before, at := present.own(); at >= 0 && before.says(want) {
		w.know(k, &want)
		return unchanged, nil
	}
	body, err := present.patch(want, w.Now())
	if err != nil {
		return failed, err
	}
	result, err = outcome(w.API.patch(ctx, k, body))
	switch result {
	case written:
		w.know(k, &want)
	case gone:
		w.know(k, nil)
	}
	return result, err
}

func (w *Writer) what(k source.Key) (condition, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.known[k]
	return c, ok
}

func (w *Writer) know(k source.Key, c *condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c == nil {
		delete(w.known, k)
		return
	}
	w.known[k] = *c
}
