package schedule_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// load is what changes in a minute.
type load struct {
	every time.Duration
	kinds []func(n int) source.Change // that change each time
	burst int                         // so many one after the other; 0 is one
	apart time.Duration               // of a burst
}

// ofMany are changes that are made once: of each sort there are more than come in a batch of any
// but an overload.
func ofMany(change func(n int) source.Change) func(n int) source.Change {
	var all [1600]source.Change
	for n := range all {
		all[n] = change(n)
	}
	return func(n int) source.Change { return all[n%len(all)] }
}

// batches is how many generations a minute of changes leads to.
func (l load) batches(t *testing.T, debounce schedule.Debounce, took time.Duration) (n int) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, debounce)
		r.took = took
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		for i := range int(time.Minute / l.every) {
			rest := l.every
			for range max(1, l.burst) {
				var e source.Event
				for _, change := range l.kinds {
					e.Changes = append(e.Changes, change(i))
					i++
				}
				r.sink(e)
				if l.burst > 1 {
					advance(l.apart)
					rest -= l.apart
				}
			}
			advance(rest)
		}
		advance(time.Minute)
		n = len(r.published()) - 1
	})
	return n
}

// TestHowManyBatchesThereAre says how many more than istiod's. A change that goes at once is a
// batch more where others follow it before it has been quiet: one in an overload, which is the same
// as never being quiet. Endpoints that merely come and go have a pace of their own.
func TestHowManyBatchesThereAre(t *testing.T) {
	endpoint, config := ofMany(endpointAt), ofMany(func(n int) source.Change { return alias("b", int32(1+n)) })
	endpoints, services := []func(int) source.Change{endpoint}, []func(int) source.Change{config}
	overload := slices.Repeat(endpoints, 20)
	const slow, quick = 30 * time.Millisecond, 10 * time.Millisecond
	both := slices.Concat(overload[:10], services)
	// What never rests, and is no overload, leaves at a pace of its own by default. An overload is
	// no batch more for it.
	steady := map[string]int{
		"a dozen a second, each of three": 376,
		"never quiet: 11 a second":        333,
		"never quiet: 33 a second":        400,
		"an overload: 1,000 a second":     7,
		"an overload of both":             7,
	}
	for name, c := range map[string]struct {
		load
		istiod, early int
	}{
		"one a second":                           {load{time.Second, services, 0, 0}, 60, 60},
		"one a second, endpoints":                {load{time.Second, endpoints, 0, 0}, 60, 60},
		"five a second":                          {load{200 * time.Millisecond, services, 0, 0}, 300, 300},
		"five a second, endpoints":               {load{200 * time.Millisecond, endpoints, 0, 0}, 300, 300},
		"three at a time, one burst a second":    {load{time.Second, services, 3, slow}, 60, 70},
		"three at a time, four bursts a second":  {load{250 * time.Millisecond, services, 3, slow}, 240, 280},
		"three in a moment, once a second":       {load{time.Second, services, 3, quick}, 60, 70},
		"three in a moment, four times a second": {load{250 * time.Millisecond, services, 3, quick}, 240, 280},
		"three in a moment, once in two seconds": {load{2 * time.Second, services, 3, quick}, 30, 60},
		"a dozen a second, each of three":        {load{80 * time.Millisecond, services, 3, quick}, 6, 8},
		"never quiet: 11 a second":               {load{90 * time.Millisecond, services, 0, 0}, 6, 7},
		"never quiet: 33 a second":               {load{30 * time.Millisecond, services, 0, 0}, 6, 7},
		"an overload: 1,000 a second":            {load{time.Millisecond, services, 0, 0}, 6, 7},
		"an overload: 2,100 endpoints a second":  {load{time.Second / 2100, endpoints, 0, 0}, 6, 7},
		"an overload: 10,000 endpoints a second": {load{2 * time.Millisecond, overload, 0, 0}, 6, 6},
		"an overload of both":                    {load{2 * time.Millisecond, both, 0, 0}, 6, 7},
		"40 endpoints a second":                  {load{25 * time.Millisecond, endpoints, 0, 0}, 6, 2400},
		"200 endpoints a second":                 {load{5 * time.Millisecond, endpoints, 0, 0}, 6, 3001},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.istiod, c.batches(t, istio, 0))
			require.Equal(t, c.early, c.batches(t, early, 0))
			fresh := c.early
			if n, paced := steady[name]; paced {
				fresh = n
			}
			require.Equal(t, fresh, c.batches(t, defaults, 0))
		})
	}
}

// However long generations take to the proxies, an overload is gathered.
func TestAnOverloadOfEndpointsIsGathered(t *testing.T) {
	overload := load{every: time.Millisecond, kinds: slices.Repeat([]func(int) source.Change{ofMany(endpointAt)}, 5)}
	for _, took := range []time.Duration{49 * time.Millisecond, -1} {
		require.Equal(t, 6, overload.batches(t, early, took), "it took %v", took)
	}
}

// Many endpoints at once are not many for long: they leave as soon as 2,000 a second allows.
func TestManyEndpointsAtOnceLeaveSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		var e source.Event
		for i := range 101 {
			e.Changes = append(e.Changes, endpointAt(i))
		}
		r.sink(e)
		advance(time.Minute)
		require.Len(t, r.published(), 2)
		require.Equal(t, time.Minute+50*time.Millisecond, r.published()[1].at)
	})
}

// bursts are changes of endpoints in a namespace, so many each time.
func bursts(namespace string, each int) []func(n int) source.Change {
	return slices.Repeat(
		[]func(int) source.Change{
			ofMany(func(n int) source.Change { return inNamespace(namespace, endpointAt(n)) }),
		},
		each,
	)
}

func inNamespace(namespace string, c source.Change) source.Change {
	c.Object.SetNamespace(namespace)
	c.Key.Namespace = namespace
	return c
}

// TestOverloadedNamespacesAreGatheredTogether counts generations: what is overloaded is gathered,
// in however many namespaces.
func TestOverloadedNamespacesAreGatheredTogether(t *testing.T) {
	busy := bursts("busy", 10)
	for name, c := range map[string]struct {
		kinds []func(int) source.Change
		every time.Duration
		want  int
	}{
		"one namespace":  {busy, time.Millisecond, 6},
		"two namespaces": {slices.Concat(busy, bursts("busier", 10)), 2 * time.Millisecond, 6},
		"ten namespaces, each a little": {
			slices.Concat(busy[:1], bursts("n1", 1), bursts("n2", 1), bursts("n3", 1), bursts("n4", 1)),
			time.Millisecond, 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, load{every: c.every, kinds: c.kinds}.batches(t, early, 0))
			require.Equal(t, 6, load{every: c.every, kinds: c.kinds}.batches(t, istio, 0))
		})
	}
}

// TestAnOverloadDelaysNoOtherNamespace lets endpoints of a namespace overload the loop for a
// minute, and some of another one change as ever.
func TestAnOverloadDelaysNoOtherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		busy, before := bursts("busy", 10), len(r.published())
		for n := range 60_000 {
			var e source.Event
			for i, change := range busy {
				e.Changes = append(e.Changes, change(10*n+i))
			}
			if n%100 == 50 {
				e.Changes = append(e.Changes, endpointAt(n/100))
			}
			r.sink(e)
			advance(time.Millisecond)
			if n%100 == 50 && n > 100 {
				last := r.deltas()[len(r.deltas())-1]
				require.Less(t, time.Since(r.start)-r.published()[len(r.published())-1].at, 2*time.Millisecond)
				require.Len(t, last.Endpoints, 1)
			}
		}
		advance(time.Minute)
		require.InDelta(t, before+600+6, len(r.published()), 2)
	})
}

// Nor does what an overload has come to, while it is on its way to the proxies.
func TestTheDeliveryOfAnOverloadDelaysNoOtherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.took = 60 * time.Millisecond
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		busy, before, flushes := bursts("busy", 10), 0, 0
		for n := range 25_000 {
			var e source.Event
			for i, change := range busy {
				e.Changes = append(e.Changes, change(10*n+i))
			}
			r.sink(e)
			advance(time.Millisecond)
			if now := len(r.published()); n > 1000 && now > before {
				flushes++
				r.sink(source.Event{Changes: []source.Change{endpointAt(n)}})
				synctest.Wait()
				require.Len(t, r.published(), now+1)
			}
			before = len(r.published())
		}
		require.Equal(t, 2, flushes)
	})
}

// What an overload takes along when it begins arrives with it, and the overload is counted no more
// with what is no part of it.
func TestAnOverloadTakesAlongWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80), serviceOf("calm")}, Synced: true})
		advance(time.Minute)
		var e source.Event
		for n := range 300 {
			e.Changes = append(e.Changes, slice(fmt.Sprint("a-", n), fmt.Sprintf("127.1.%d.%d", n/250, 1+n%250)))
		}
		r.sink(e)
		r.sink(source.Event{Changes: []source.Change{inNamespace("calm", endpointAt(0))}})
		advance(20 * time.Millisecond)
		require.Len(t, r.deltas(), 2)
		require.Equal(t, 1, endpointsIn(r.deltas()[1].To, "a.calm.svc.cluster.local"))
		advance(time.Minute)
		require.Equal(t, 300, endpointsIn(r.deltas()[len(r.deltas())-1].To, "a.default.svc.cluster.local"))
	})
}

// TestChangesOfAnObjectStayInOrder has endpoints change at random, in overloads and beside them:
// what is published of an object is never older than what was, and the latest in the end.
func TestChangesOfAnObjectStayInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bursts := rapid.SliceOfN(rapid.Custom(drawBurst), 10, 30).Draw(rt, "bursts")
		took := rapid.SampledFrom([]time.Duration{-1, 0, 40 * time.Millisecond}).Draw(rt, "took")
		latest, seen := map[string]int{}, map[string]int{}
		for _, d := range play(t, bursts, took, latest) {
			for namespace := range latest {
				if now := number(d.To, namespace); now != seen[namespace] {
					require.Greater(rt, now, seen[namespace])
					seen[namespace] = now
				}
			}
		}
		require.Equal(rt, latest, seen)
	})
}

// play lets bursts of changes come, and notes the number of the latest change in each namespace.
func play(t *testing.T, bursts []burstOf, took time.Duration, latest map[string]int) (deltas []*state.Delta) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.took = took
		r.sink(
			source.Event{
				Changes: []source.Change{serviceOf("one"), serviceOf("two"), serviceOf("three")},
				Synced:  true,
			},
		)
		advance(time.Minute)
		for n, g := range bursts {
			for i := range g.changes {
				namespace := g.namespace
				if namespace == "" {
					namespace = fmt.Sprint("one-of-many-", i%50)
				} else {
					latest[namespace] = 1 + 1000*n + i
				}
				r.sink(source.Event{Changes: []source.Change{inNamespace(namespace, numbered(1+1000*n+i))}})
			}
			advance(g.then)
		}
		advance(time.Minute)
		deltas = r.deltas()
	})
	return deltas
}

// burstOf are changes of endpoints in a moment, and how long nothing changes then.
type burstOf struct {
	namespace string // empty for many
	changes   int
	then      time.Duration
}

func drawBurst(t *rapid.T) burstOf {
	return burstOf{
		namespace: rapid.SampledFrom([]string{"one", "two", "three", "", "", ""}).Draw(t, "namespace"),
		changes:   rapid.SampledFrom([]int{1, 300, 30, 300, 1}).Draw(t, "changes"),
		then: rapid.SampledFrom(
			[]time.Duration{0, 30 * time.Millisecond, 0, 110 * time.Millisecond, time.Millisecond, time.Second},
		).Draw(t, "then"),
	}
}

func serviceOf(namespace string) source.Change { return inNamespace(namespace, service("a", 80)) }

// numbered is a slice of one endpoint, whose address tells a number.
func numbered(n int) source.Change { return slice("a-0", fmt.Sprintf("127.1.%d.%d", n/250, 1+n%250)) }

// number is what the slice of a namespace tells; 0 if it has no endpoint.
func number(snap *state.Snapshot, namespace string) (n int) {
	for s := range snap.ServicesIn(namespace) {
		for _, e := range snap.Endpoints(s).All() {
			a := netip.MustParseAddr(e.Address).As4()
			n = 250*int(a[2]) + int(a[3]) - 1
		}
	}
	return n
}
