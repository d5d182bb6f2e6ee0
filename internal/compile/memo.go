package compile

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

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

// Refusals has a function for each sort of thing that cannot be served as it was compiled. All
// fields must be set.
type Refusals struct {
	// Endpoint gets an endpoint that must not be encoded and is left out.
	Endpoint func(model.Endpoint, error)
	// Resource gets a resource that breaks a rule for which Envoy would refuse a whole response. It
	// is left out or closed, and all others go on.
	Resource func(name string, err error)
}

// validatable is a message that checks the rules of its fields (protoc-gen-validate). Envoy checks
// the same rules, and refuses a whole response for one message that breaks them.
type validatable interface {
	proto.Message
	Validate() error
}

// encode makes a resource of a message. It returns nil if the message cannot be served, as if the
// resource did not exist.
func (tc *translationCache) encode(name string, m validatable) *resource.Resource {
	return tc.encodeWith(name, m, resource.Traits{})
}

// encodeOwn is encode for a message with the proxy's own addresses in it.
func (tc *translationCache) encodeOwn(name string, m validatable) *resource.Resource {
	return tc.encodeWith(name, m, resource.Traits{Placeholders: true})
}

// encodeWith is encode for a resource with traits. Its references are read from the message.
func (tc *translationCache) encodeWith(name string, m validatable, t resource.Traits) *resource.Resource {
	body, err := pb.Marshal(m)
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		tc.refusals.Resource(name, err)
		return nil
	}
	t.Refs = tc.refsOf(m)
	return resource.NewWith(name, body, t)
}

// encodeVirtualHost is encode for a virtual host of a table, whose message has no name yet. One
// that cannot be served is closed. If it were left out, its requests would go where those for
// unknown hosts go.
func (tc *translationCache) encodeVirtualHost(
	table, name string, m *routev3.VirtualHost, domains *model.List[string],
) *resource.Resource {
	m.Name = name
	err := m.Validate()
	m.Name = ""
	if err != nil {
		tc.refusals.Resource(name, err)
		m = route.Closed(domains)
	}
	body, err := pb.Marshal(m)
	if err != nil {
		tc.refusals.Resource(name, err)
		return nil
	}
	return resource.NewVirtualHost(table, name, body, tc.refsOf(m))
}
