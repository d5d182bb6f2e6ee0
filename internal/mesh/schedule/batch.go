package schedule

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// batch is a set of changes that leaves the queues together. It is applied when it leaves. Then it
// is published, or held until it is complete: what leaves next joins it.
type batch struct {
	oldest     time.Time // when the oldest of its changes came; zero for the initial state
	changes    bool      // it has more than endpoints that leave at their own pace
	early      bool      // it is small, and did not wait for the usual quiet period
	unquiet    bool      // it did not wait for any
	mayBeHeld  bool
	policies   time.Time // when the oldest of the policies came that it began with; zero if it did not
	steppedAt  time.Time // when something was last applied of it
	overloaded bool      // it has nothing but endpoints of overloaded namespaces

	// Why it is held.
	newErrors bool                // it has an error that was not there before
	awaited   map[source.Key]bool // its new Services of which no EndpointSlice has come

	// The result of its steps, for publish.
	delta         *state.Delta
	updates       int
	took          time.Duration   // of its steps
	statusChanges []source.Change // for LoopOptions.Applied alone
}

// result is the outcome of one step of a batch.
type result struct {
	newErrors bool         // there is an error that was not there before
	awaited   []source.Key // new Services without endpoints
}

// protects reports whether it began with policies.
func (b *batch) protects() bool { return !b.policies.IsZero() }

// await adds Services whose endpoints are to come.
func (b *batch) await(services []source.Key) {
	for _, s := range services {
		if b.awaited == nil {
			b.awaited = map[source.Key]bool{}
		}
		b.awaited[s] = true
	}
}

// endpointsCame notes that a slice has come, which need not be applied. One without endpoints says
// that there are none to wait for.
func (b *batch) endpointsCame(c source.Change) { delete(b.awaited, convert.ServiceOf(c)) }

// awaitsUntil is until when it is held for endpoints, that is at most for the usual quiet period.
func (b *batch) awaitsUntil(longest time.Duration) time.Time {
	if len(b.awaited) == 0 {
		return b.oldest
	}
	return b.oldest.Add(longest)
}
