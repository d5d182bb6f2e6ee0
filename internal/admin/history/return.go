package history

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// returned is a class that was made in place of another one, and what differed then. It is of no
// generation.
type returned struct {
	entry
	from uint64
}

// maxReturns is how many of them are remembered; their bodies take a part of the budget at most.
const (
	maxReturns   = 5000
	returnsShare = 16
)

// returns are the classes of this process that were made in place of others, the oldest first.
type returns struct {
	of    map[uint64]*returned
	order []uint64
	size  int
}

// addReturn remembers a class in place of another one.
func (s *Store) addReturn(r Return) {
	e := entry{Generation: page.Generation{At: r.At}}
	e.compare([]resource.ClassState{{Class: r.To, Was: r.Was, State: r.State}}, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.returns.of == nil {
		s.returns.of = map[uint64]*returned{}
	}
	if s.returns.of[uint64(r.To)] != nil {
		return
	}
	s.returns.of[uint64(r.To)] = &returned{e, uint64(r.From)}
	s.returns.order = append(s.returns.order, uint64(r.To))
	s.returns.size += e.size()
	for len(s.returns.order) > maxReturns || s.returns.size > s.budget/returnsShare {
		oldest := s.returns.order[0]
		s.returns.size -= s.returns.of[oldest].size()
		delete(s.returns.of, oldest)
		s.returns.order = s.returns.order[1:]
	}
}

// returnOf returns in place of what a class was made; nil if that is not known.
func (s *Store) returnOf(class uint64) *returned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.returns.of[class]
}

// goBack goes back over returns, as far as a proxy had no class of the time of a generation, and
// calls f with those since a time until it returns false. It reports whether it did not.
func (s *Store) goBack(t *tracker, e *entry, since time.Time, f func(e *entry) bool) bool {
	for t.proxy != "" && t.class > e.LastClass {
		r := s.returnOf(t.class)
		if r == nil {
			return true
		}
		t.class = r.from
		if r.At.After(since) && !f(&r.entry) {
			return false
		}
	}
	return true
}
