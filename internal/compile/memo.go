package compile

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// memo remembers what a translation made of an input. The input is the key and holds all that the
// translation can reach, so nothing has to be invalidated. What no class uses any more is swept.
// One goroutine uses it at a time.
type memo[In comparable] struct {
	store     *resource.Store
	translate func(In) *resource.Resource
	results   map[In]*resource.Resource
	onMiss    func(In, *resource.Resource) // called with each new result, unless nil
	stats     TranslateStats
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
	return &memo[In]{store: store, translate: translate, results: map[In]*resource.Resource{}}
}

func (m *memo[In]) get(in In) *resource.Resource {
	if r, ok := m.results[in]; ok {
		m.stats.Hits++
		return r
	}
	m.stats.Misses++
	fresh := m.translate(in)
	if fresh == nil {
		m.results[in] = nil
		return nil
	}
	r := m.store.Canonical(fresh)
	if r != fresh {
		m.stats.Equal++
	}
	m.results[in] = r
	if m.onMiss != nil {
		m.onMiss(in, r)
	}
	return r
}

// sweep forgets the results that are not live.
func (m *memo[In]) sweep(live *resource.Live) {
	for in, r := range m.results {
		if !live.Has(r) {
			delete(m.results, in)
		}
	}
}

func (m *memo[In]) len() int { return len(m.results) }

func (m *memo[In]) counts() TranslateStats { return m.stats }
