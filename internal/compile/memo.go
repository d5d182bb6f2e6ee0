package compile

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// memo remembers what a translation made of an input. The input is the key: it holds all that the translation can reach, so
// there is nothing to invalidate; what no class uses any more is swept out. It is used by one goroutine.
type memo[In comparable] struct {
	store     *resource.Store
	translate func(In) *resource.Resource
	made      map[In]*resource.Resource
	note      func(In, *resource.Resource) // is told of what was made, unless it is nil
	stats     TranslateStats
}

// remembering is a memo, whatever its input.
type remembering interface {
	counts() TranslateStats
	len() int
	sweep(live *resource.Live)
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

func newMemo[In comparable](store *resource.Store, translate func(In) *resource.Resource) *memo[In] {
	return &memo[In]{store: store, translate: translate, made: map[In]*resource.Resource{}}
}

func (m *memo[In]) get(in In) *resource.Resource {
	if r, ok := m.made[in]; ok {
		m.stats.Hits++
		return r
	}
	m.stats.Misses++
	fresh := m.translate(in)
	if fresh == nil {
		m.made[in] = nil
		return nil
	}
	r := m.store.Canonical(fresh)
	if r != fresh {
		m.stats.Equal++
	}
	m.made[in] = r
	if m.note != nil {
		m.note(in, r)
	}
	return r
}

// sweep forgets what is not live.
func (m *memo[In]) sweep(live *resource.Live) {
	for in, r := range m.made {
		if !live.Has(r) {
			delete(m.made, in)
		}
	}
}

func (m *memo[In]) len() int { return len(m.made) }

func (m *memo[In]) counts() TranslateStats { return m.stats }

// Refusals are told what cannot be served as it was compiled. All fields must be set.
type Refusals struct {
	// Endpoint failed the gate of what may be encoded, and is left out.
	Endpoint func(model.Endpoint, error)
	// Resource breaks a rule that Envoy would refuse a whole response for: it is left out or closed, and all others go on.
	Resource func(name string, err error)
}

// valid is a message that knows the rules which its fields keep (protoc-gen-validate). Envoy checks the same rules, and
// refuses all of a response for one message that breaks them.
type valid interface {
	proto.Message
	Validate() error
}

// encode makes a resource of a message, nil if it cannot be served: then it is as if it did not exist.
func (w *workshop) encode(name string, m valid) *resource.Resource {
	return w.encodeWith(name, m, resource.Traits{})
}

// encodeOwn is encode for a message with the proxy's own addresses in it.
func (w *workshop) encodeOwn(name string, m valid) *resource.Resource {
	return w.encodeWith(name, m, resource.Traits{Placeholders: true})
}

// encodeWith is encode for a resource with traits, but for its references, which are read from the message.
func (w *workshop) encodeWith(name string, m valid, t resource.Traits) *resource.Resource {
	body, err := pb.Marshal(m)
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		w.refusals.Resource(name, err)
		return nil
	}
	t.Refs = w.refsOf(m)
	return resource.NewWith(name, body, t)
}

// encodeVirtualHost is encode for a virtual host of a table, which comes without a name. One that cannot be served is closed: left
// out, its requests would go where those for unknown hosts go.
func (w *workshop) encodeVirtualHost(table, name string, m *routev3.VirtualHost, domains *model.List[string]) *resource.Resource {
	m.Name = name
	err := m.Validate()
	m.Name = ""
	if err != nil {
		w.refusals.Resource(name, err)
		m = route.Closed(domains)
	}
	body, err := pb.Marshal(m)
	if err != nil {
		w.refusals.Resource(name, err)
		return nil
	}
	return resource.NewVirtualHost(table, name, body, w.refsOf(m))
}
