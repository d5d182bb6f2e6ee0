package schedule_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/source"
)

// endpointAt is a change of a slice with one endpoint, which the n-th one has at another address.
func endpointAt(n int) source.Change {
	c := slice(fmt.Sprint("a-", n%8), fmt.Sprintf("127.0.%d.%d", n/200%200, n%200+1))
	c.ObservedAt = time.Now()
	return c
}

// churned is what becomes of endpoints that change all the time.
type churned struct {
	generations int
	longest     time.Duration // that a change waited for its generation
}

// churn changes endpoints so often for so long. A generation takes so long to the proxies, negative
// is for ever, and comes to some of them every so often before; 0 is never.
func churn(t *testing.T, debounce schedule.Debounce, every, long, took, moves time.Duration) (c churned) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, debounce)
		r.took, r.moves = took, moves
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		for i := range int(long / every) {
			r.sink(source.Event{Changes: []source.Change{endpointAt(i)}})
			advance(every)
		}
		advance(time.Minute)
		for i, d := range r.deltas()[1:] {
			c.generations++
			c.longest = max(c.longest, r.start.Add(r.published()[1+i].at).Sub(d.Observed))
		}
	})
	return c
}

const often = 25 * time.Millisecond // 40 a second

func TestEndpointsThatNeverRestLeaveAtThePaceOfTheProxies(t *testing.T) {
	for name, c := range map[string]struct {
		took, moves, every time.Duration // every so often a generation
	}{
		"at once":                           {0, 0, often},
		"before the next change":            {9 * time.Millisecond, 0, often},
		"half of the time":                  {49 * time.Millisecond, 0, 98 * time.Millisecond},
		"half of a longer time":             {600 * time.Millisecond, 100 * time.Millisecond, 1200 * time.Millisecond},
		"longer than endpoints wait":        {3 * time.Second, 100 * time.Millisecond, 1500 * time.Millisecond},
		"they never get there":              {-1, 100 * time.Millisecond, 1500 * time.Millisecond},
		"it stands still":                   {2 * time.Second, 0, 500 * time.Millisecond},
		"it stands still after the first":   {-1, 20 * time.Second, 500 * time.Millisecond},
		"it stands still from time to time": {900 * time.Millisecond, 600 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			got := churn(t, early, often, time.Minute, c.took, c.moves)
			require.InDelta(
				t, float64(time.Minute)/float64(c.every), got.generations, 4, "some of the first need not wait so long",
			)
			require.LessOrEqual(t, got.longest, c.every)
		})
	}
}

// A generation that takes long, as it may amid an overload or while garbage is collected, does not
// delay the next change.
func TestOneSlowGenerationDelaysNoneAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		for i, took := range []time.Duration{2, 60, 2, 60, 2} {
			advance(time.Duration(61+i) * time.Millisecond)
			r.took = took * time.Millisecond
			at := time.Since(r.start)
			r.sink(source.Event{Changes: []source.Change{endpointAt(i)}})
			synctest.Wait()
			require.Len(t, r.published(), 2+i)
			require.Equal(t, at, r.published()[1+i].at)
		}
	})
}

// Whoever sets PILOT_DEBOUNCE_AFTER gets what istiod does: a batch whenever the maximum has passed.
func TestEndpointsThatNeverRestWaitWithAllOthers(t *testing.T) {
	require.Equal(t, churned{6, 10 * time.Second}, churn(t, istio, often, time.Minute, 0, 0))
}

func TestAfterAnOverloadEndpointsLeaveAtTheirPaceAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		for i := range 10_000 {
			r.sink(source.Event{Changes: []source.Change{endpointAt(i)}})
			advance(100 * time.Microsecond)
		}
		for i := range 20 {
			r.sink(source.Event{Changes: []source.Change{endpointAt(i)}})
			advance(often)
		}
		require.Greater(t, len(r.published()), 10)
	})
}

func TestEndpointsThatChangeDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.took = -1
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		for i := range 200 {
			r.sink(source.Event{Changes: []source.Change{endpointAt(i)}})
			advance(often)
		}
		at := time.Since(r.start)
		r.sink(source.Event{Changes: []source.Change{alias("b", 80)}})
		advance(time.Millisecond)
		last := r.published()[len(r.published())-1]
		require.Equal(t, at, last.at)
		require.Equal(t, 2, last.services)
	})
}

func TestOthersThatChangeDoNotDelayEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		for i := range 100 {
			r.sink(source.Event{Changes: []source.Change{service("b", int32(80+i))}})
			advance(often)
		}
		before, at := len(r.published()), time.Since(r.start)
		r.sink(source.Event{Changes: []source.Change{endpointAt(0)}})
		advance(time.Millisecond)
		require.Len(t, r.published(), before+1)
		require.Equal(t, at, r.published()[before].at)
		require.Empty(t, r.deltas()[before].Services, "it is not quiet enough for those")
	})
}

// What is held is applied, so that endpoints that come after it go out with it.
func TestEndpointsFollowWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withRouteWithoutSubset(t)
		advance(50 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{endpointAt(0)}})
		advance(time.Minute)
		require.Len(t, r.published(), 2)
		require.Equal(t, time.Minute+100*time.Millisecond, r.published()[1].at)
		require.Len(t, r.deltas()[1].Endpoints, 1)
	})
}

func TestFlushWaitsForEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.took = -1
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(10 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{endpointAt(0)}})
		_, err := r.loop.Flush(t.Context())
		require.NoError(t, err)
		require.Equal(t, 500*time.Millisecond, r.published()[1].at)
	})
}
