package memory

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Source delivers the changes that New and Send are called with. Those of New are its first event.
type Source struct {
	events chan source.Event
}

// New returns a source whose first, synced event holds the changes given.
func New(initial ...source.Change) *Source {
	s := &Source{events: make(chan source.Event, 1)}
	s.events <- source.Event{Changes: initial, Synced: true}
	return s
}

// Run implements source.Source.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-s.events:
			sink(e)
		}
	}
}

// Send delivers changes as one event. It blocks until the source has taken the event before.
func (s *Source) Send(ctx context.Context, changes ...source.Change) {
	select {
	case <-ctx.Done():
	case s.events <- source.Event{Changes: changes}:
	}
}

// Upsert makes the change that creates or updates an object.
func Upsert(kind kinds.Kind, object metav1.Object) source.Change {
	key := source.Key{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	return source.Change{Key: key, Object: object, ObservedAt: time.Now()}
}

// Delete makes the change that deletes an object.
func Delete(kind kinds.Kind, namespace, name string) source.Change {
	return source.Change{Key: source.Key{Kind: kind, Namespace: namespace, Name: name}, ObservedAt: time.Now()}
}
