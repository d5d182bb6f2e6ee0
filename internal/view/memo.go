package view

import (
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// memo remembers what a translation made of an input. The input is the key: it holds all that the translation can reach, so
// there is nothing to invalidate; what no class uses any more is swept out. It is used by one goroutine.
type memo[In comparable] struct {
	store     *Store
	translate func(In) *Resource
	made      map[In]*Resource
	stats     TranslateStats
}

// remembering is a memo, whatever its input.
type remembering interface {
	counts() TranslateStats
	len() int
	sweep(live map[*Resource]bool)
}

// TranslateStats count what translations of a kind did since the start.
type TranslateStats struct {
	Hits, Misses uint64
	// Equal counts misses whose output was there already: an input that holds more than it should, or another class that
	// came to the same bytes by another way.
	Equal uint64
}

func (s TranslateStats) plus(o TranslateStats) TranslateStats {
	return TranslateStats{Hits: s.Hits + o.Hits, Misses: s.Misses + o.Misses, Equal: s.Equal + o.Equal}
}

func newMemo[In comparable](store *Store, translate func(In) *Resource) *memo[In] {
	return &memo[In]{store: store, translate: translate, made: map[In]*Resource{}}
}

func (m *memo[In]) get(in In) *Resource {
	if r, ok := m.made[in]; ok {
		m.stats.Hits++
		return r
	}
	m.stats.Misses++
	fresh := m.translate(in)
	r := m.store.Canonical(fresh)
	if r != fresh {
		m.stats.Equal++
	}
	m.made[in] = r
	return r
}

// sweep forgets what is not live.
func (m *memo[In]) sweep(live map[*Resource]bool) {
	for in, r := range m.made {
		if !live[r] {
			delete(m.made, in)
		}
	}
}

func (m *memo[In]) len() int { return len(m.made) }

func (m *memo[In]) counts() TranslateStats { return m.stats }

// encode makes a resource of a message. What cannot be encoded (a string that is not UTF-8, which ingest lets through
// nowhere) becomes an empty body, which Envoy refuses by name.
func encode(name string, m proto.Message) *Resource {
	body, err := pb.Marshal(m)
	if err != nil {
		body = nil
	}
	return NewResource(name, body)
}

// encodeOwn is encode for a message with the proxy's own addresses in it.
func encodeOwn(name string, m proto.Message) *Resource {
	r := encode(name, m)
	r.own = true
	return r
}
