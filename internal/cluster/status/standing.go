package status

import (
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// standing is what of Lateen's stands in the API server, by object, so that what is right is not
// written again.
type standing[T any] struct {
	mu       sync.Mutex
	byObject map[source.Key]T
}

func newStanding[T any]() *standing[T] { return &standing[T]{byObject: map[source.Key]T{}} }

func (s *standing[T]) lookup(k source.Key) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, told := s.byObject[k]
	return value, told
}

func (s *standing[T]) remember(k source.Key, value T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byObject[k] = value
}

// forget notes that nothing of Lateen's stands there.
func (s *standing[T]) forget(k source.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byObject, k)
}
