package status

import (
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// standing remembers by object what the API server has of Lateen, as it was last read or written. A
// writer compares with it, so that an equal value is not written again.
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

// forget notes that the API server has nothing of Lateen for an object, or that this is unknown.
func (s *standing[T]) forget(k source.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byObject, k)
}
