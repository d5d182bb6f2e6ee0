package compile

import (
	"github.com/lateen-mesh/lateen/internal/mesh/forkmap"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// memo remembers what a translation made of an input. The input is the key and holds all that the
// translation can reach, so nothing has to be invalidated. What no class uses any more is swept.
// One goroutine uses it at a time.
type memo[In comparable] struct {
	store     *resource.Store
	translate func(In) *resource.Resource
	results   *forkmap.Map[In, *resource.Resource]
	onMiss    func(In, *resource.Resource) // called with each new result, unless nil
	stats     *TranslateStats
	unheard   *int // emitter.unheard
}

// anyMemo is a memo of any input type.
type anyMemo interface {
	counts() TranslateStats
	len() int
	sweep(live *resource.Live)
}

// TranslateStats count what translations of a kind did since the start.
type TranslateStats struct {
	Hits, Misses uint64
	// Equal counts misses whose output was there already: an input that holds more than it should,
	// or another class that came to the same bytes by another way.
	Equal uint64
}

func (s TranslateStats) plus(o TranslateStats) TranslateStats {
	return TranslateStats{Hits: s.Hits + o.Hits, Misses: s.Misses + o.Misses, Equal: s.Equal + o.Equal}
}

func newMemo[In comparable](store *resource.Store, translate func(In) *resource.Resource) *memo[In] {
	return &memo[In]{
		store: store, translate: translate, results: forkmap.New[In, *resource.Resource](), stats: &TranslateStats{},
		unheard: new(int),
	}
}

// fork returns a memo that knows what this one does, and keeps what it makes for itself. It counts
// with this one.
func (m *memo[In]) fork(onMiss func(In, *resource.Resource)) *memo[In] {
	f := *m
	f.results, f.onMiss = m.results.Fork(), onMiss
	return &f
}

func (m *memo[In]) get(in In) *resource.Resource {
	if r, ok := m.results.Find(in); ok {
		m.stats.Hits++
		return r
	}
	m.stats.Misses++
	unheard := *m.unheard
	fresh := m.translate(in)
	told := unheard == *m.unheard
	if fresh == nil {
		if told {
			m.results.Put(in, nil)
		}
		return nil
	}
	r := m.store.Canonical(fresh)
	if r != fresh {
		m.stats.Equal++
	}
	if told {
		m.results.Put(in, r)
	}
	if m.onMiss != nil {
		m.onMiss(in, r)
	}
	return r
}

// sweep forgets the results that are not live.
func (m *memo[In]) sweep(live *resource.Live) {
	for in, r := range m.results.All() {
		if !live.Has(r) {
			m.results.Drop(in)
		}
	}
}

func (m *memo[In]) len() int { return m.results.Own() }

func (m *memo[In]) counts() TranslateStats { return *m.stats }
