package world_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/world"
)

// weather is what changes in a minute.
type weather struct {
	every time.Duration
	kinds []func(n int) source.Change // that change each time
	burst int                         // so many one after the other; 0 is one
	apart time.Duration               // of a burst
}

// ofMany are changes that are made once: of each sort there are more than come in a batch of any but a storm.
func ofMany(change func(n int) source.Change) func(n int) source.Change {
	var all [1600]source.Change
	for n := range all {
		all[n] = change(n)
	}
	return func(n int) source.Change { return all[n%len(all)] }
}

// batches is how many generations a minute of changes leads to.
func (w weather) batches(t *testing.T, debounce world.Debounce, took time.Duration) (n int) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, debounce)
		r.took = took
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		for i := range int(time.Minute / w.every) {
			rest := w.every
			for range max(1, w.burst) {
				var e source.Event
				for _, change := range w.kinds {
					e.Changes = append(e.Changes, change(i))
					i++
				}
				r.sink(e)
				if w.burst > 1 {
					advance(w.apart)
					rest -= w.apart
				}
			}
			advance(rest)
		}
		advance(time.Minute)
		n = len(r.published()) - 1
	})
	return n
}

// TestHowManyBatchesThereAre says how many more than istiod's. A change that goes at once is a batch more where others follow it before it
// has been quiet: one in a storm, which is the same as never being quiet. Endpoints that merely come and go have a pace of their own.
func TestHowManyBatchesThereAre(t *testing.T) {
	endpoint, config := ofMany(endpointAt), ofMany(func(n int) source.Change { return service("b", int32(1+n)) })
	endpoints, services := []func(int) source.Change{endpoint}, []func(int) source.Change{config}
	storm := slices.Repeat(endpoints, 20)
	const slow, quick = 30 * time.Millisecond, 10 * time.Millisecond
	both := slices.Concat(storm[:10], services)
	for name, c := range map[string]struct {
		weather
		istiod, early int
	}{
		"one a second":                           {weather{time.Second, services, 0, 0}, 60, 60},
		"one a second, endpoints":                {weather{time.Second, endpoints, 0, 0}, 60, 60},
		"five a second":                          {weather{200 * time.Millisecond, services, 0, 0}, 300, 300},
		"five a second, endpoints":               {weather{200 * time.Millisecond, endpoints, 0, 0}, 300, 300},
		"three at a time, one burst a second":    {weather{time.Second, services, 3, slow}, 60, 70},
		"three at a time, four bursts a second":  {weather{250 * time.Millisecond, services, 3, slow}, 240, 280},
		"three in a moment, once a second":       {weather{time.Second, services, 3, quick}, 60, 70},
		"three in a moment, four times a second": {weather{250 * time.Millisecond, services, 3, quick}, 240, 280},
		"three in a moment, once in two seconds": {weather{2 * time.Second, services, 3, quick}, 30, 60},
		"a dozen a second, each of three":        {weather{80 * time.Millisecond, services, 3, quick}, 6, 8},
		"never quiet: 11 a second":               {weather{90 * time.Millisecond, services, 0, 0}, 6, 7},
		"never quiet: 33 a second":               {weather{30 * time.Millisecond, services, 0, 0}, 6, 7},
		"a storm: 1,000 a second":                {weather{time.Millisecond, services, 0, 0}, 6, 7},
		"a storm: 2,100 endpoints a second":      {weather{time.Second / 2100, endpoints, 0, 0}, 6, 7},
		"a storm: 10,000 endpoints a second":     {weather{2 * time.Millisecond, storm, 0, 0}, 6, 6},
		"a storm of both":                        {weather{2 * time.Millisecond, both, 0, 0}, 6, 7},
		"40 endpoints a second":                  {weather{25 * time.Millisecond, endpoints, 0, 0}, 6, 2400},
		"200 endpoints a second":                 {weather{5 * time.Millisecond, endpoints, 0, 0}, 6, 3001},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.istiod, c.batches(t, istio, 0))
			require.Equal(t, c.early, c.batches(t, early, 0))
		})
	}
}

// However long generations take to the proxies, a storm is gathered.
func TestAStormOfEndpointsIsGathered(t *testing.T) {
	storm := weather{every: time.Millisecond, kinds: slices.Repeat([]func(int) source.Change{ofMany(endpointAt)}, 5)}
	for _, took := range []time.Duration{49 * time.Millisecond, -1} {
		require.Equal(t, 6, storm.batches(t, early, took), "it took %v", took)
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
