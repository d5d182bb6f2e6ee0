package keysets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
	"github.com/lateen-mesh/lateen/internal/observe"
)

// world is an issuer and a mesh around a Keeper, in virtual time.
type world struct {
	t      *testing.T
	keeper *Keeper

	mu      sync.Mutex
	keys    map[string]string // by URI; what is missing fails
	calls   map[string]int
	refuses bool // deliveries fail
	hangs   bool // nothing answers until the time is up
	has     []jwks.Entry
	wanted  map[string]string // by URI, the namespace that names it; "" if nobody does any more
	told    map[string]string
	metrics *observe.Keys
}

// counted returns the value of a counter.
func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.GetCounter().GetValue()
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, keys: map[string]string{}, calls: map[string]int{},
		wanted: map[string]string{}, told: map[string]string{},
	}
	metrics := observe.New(observe.Build{Now: time.Now})
	w.metrics = &metrics.Keys
	w.keeper = NewKeeper(Options{
		Fetch: w.fetch, Refresh: 20 * time.Minute, Root: "istio-system",
		Metrics: &metrics.Keys, Log: slog.New(slog.DiscardHandler),
	})
	return w
}

func (w *world) fetch(ctx context.Context, uri string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[uri]++
	if w.hangs {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
	}
	if keys := w.keys[uri]; keys != "" {
		return keys, nil
	}
	return "", errors.New("does not answer")
}

// deliver gives the mesh all entries, as the loop does.
func (w *world) deliver(_ context.Context, entries []jwks.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses {
		return errors.New("no")
	}
	w.has = entries
	return nil
}

// want says what the mesh wants, in one namespace, and what it has of that.
func (w *world) want(uris ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri := range w.wanted {
		w.wanted[uri] = ""
	}
	for _, uri := range uris {
		w.wanted[uri] = "default"
	}
	w.tell()
}

// wantToo says what a namespace wants beside what others do.
func (w *world) wantToo(namespace string, uris ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uri := range uris {
		w.wanted[uri] = namespace
	}
	w.tell()
}

// tell repeats to the Keeper all that is so.
func (w *world) tell() {
	known := map[string]*jwks.Entry{}
	for i := range w.has {
		known[w.has[i].URI] = &w.has[i]
	}
	var demands []Demand
	for uri, namespace := range w.wanted {
		d := Demand{URI: uri, Wanted: namespace != "", Known: known[uri]}
		if before := w.told[uri]; before != namespace {
			for n, more := range map[string]int{namespace: 1, before: -1} {
				if n != "" {
					d.Names = append(d.Names, Naming{Namespace: n, More: more})
				}
			}
			w.told[uri] = namespace
		}
		demands = append(demands, d)
	}
	w.keeper.Update(demands)
}

// run runs the Keeper until the function it returns is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var done sync.WaitGroup
	done.Go(func() { w.keeper.Run(ctx, w.deliver) })
	return func() { cancel(); done.Wait() }
}

func (w *world) set(uri, keys string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[uri] = keys
}

// after lets time pass, and tells the Keeper what the mesh has then.
func (w *world) after(d time.Duration) (has []jwks.Entry, calls map[string]int) {
	<-time.After(d) // of the bubble
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell()
	counts := map[string]int{}
	for uri, n := range w.calls {
		counts[uri] = n
	}
	return w.has, counts
}

func TestEachSetIsFetchedOnceAndRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run()()
		w.set("a", "keys")
		w.want("a")
		w.want("a")
		has, calls := w.after(time.Second)
		require.Equal(t, []jwks.Entry{{URI: "a", Keys: "keys"}}, has)
		require.Equal(t, map[string]int{"a": 1}, calls)
		_, calls = w.after(15 * time.Minute)
		require.Equal(t, 1, calls["a"])
		w.set("a", "other keys")
		has, calls = w.after(10 * time.Minute)
		require.Equal(t, []jwks.Entry{{URI: "a", Keys: "other keys"}}, has)
		require.Equal(t, 2, calls["a"])
	})
}

func TestWhatCannotBeFetchedIsSaidAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run()()
		w.want("a")
		has, _ := w.after(time.Millisecond)
		require.Equal(t, []jwks.Entry{{URI: "a", Error: "does not answer"}}, has)
		_, calls := w.after(time.Hour)
		require.Less(t, calls["a"], 40, "attempts become rare")
		require.Greater(t, calls["a"], 15)
		w.set("a", "keys")
		has, _ = w.after(10 * time.Minute)
		require.Equal(t, []jwks.Entry{{URI: "a", Keys: "keys"}}, has)
		require.InDelta(t, 1, counted(t, w.metrics.Fetched), 0)
		failed := counted(t, w.metrics.Failed)
		require.GreaterOrEqual(t, failed, float64(calls["a"]))
		w.set("a", "")
		has, _ = w.after(time.Hour)
		require.Equal(t, []jwks.Entry{{URI: "a", Keys: "keys"}}, has, "keys of before stay in use")
		require.Greater(t, counted(t, w.metrics.Failed), failed)
	})
}

func TestWhatNobodyWantsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run()()
		w.set("a", "keys")
		w.set("b", "keys")
		w.want("a", "b")
		has, _ := w.after(time.Second)
		require.Len(t, has, 2)
		w.want("b")
		has, _ = w.after(time.Second)
		require.Equal(t, []jwks.Entry{{URI: "b", Keys: "keys"}}, has)
		_, calls := w.after(time.Hour)
		require.Equal(t, 1, calls["a"])
	})
}

// A replica that begins to fetch takes over what the mesh has, even if the issuer is away.
func TestAnotherReplicaTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.set("a", "keys")
		w.want("a")
		_, calls := w.after(time.Hour)
		require.Empty(t, calls, "who does not run fetches nothing")
		w.mu.Lock()
		w.has = []jwks.Entry{{URI: "a", Keys: "keys of the other replica"}}
		w.mu.Unlock()
		w.after(0)
		w.set("a", "")
		stop := w.run()
		has, calls := w.after(21 * time.Minute)
		require.Equal(t, []jwks.Entry{{URI: "a", Keys: "keys of the other replica"}}, has)
		require.NotZero(t, calls["a"])
		stop()
		w.set("a", "new keys")
		defer w.run()()
		has, _ = w.after(21 * time.Minute)
		require.Equal(t, []jwks.Entry{{URI: "a", Keys: "new keys"}}, has)
	})
}

func TestWhatCannotBeDeliveredIsDeliveredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run()()
		w.refuses = true
		w.set("a", "keys")
		w.want("a")
		has, _ := w.after(time.Minute)
		require.Empty(t, has)
		w.mu.Lock()
		w.refuses = false
		w.mu.Unlock()
		has, calls := w.after(6 * time.Second)
		require.Len(t, has, 1)
		require.Equal(t, 1, calls["a"])
	})
}

// While all places are taken by fetches that do not end, a set that is due waits for the end of
// one, and nobody looks again and again.
func TestSetsWaitForAFreePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hangs = true
		for i := range maxFetches + 1 {
			w.wantToo(fmt.Sprint("namespace ", i%3), fmt.Sprint("set ", i))
		}
		defer w.run()()
		_, calls := w.after(defaultTimeout / 2)
		require.Len(t, calls, maxFetches)
		_, calls = w.after(defaultTimeout)
		require.Len(t, calls, maxFetches+1)
	})
}
