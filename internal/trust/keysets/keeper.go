package keysets

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
	"github.com/lateen-mesh/lateen/internal/observe"
)

// Options are what a Keeper needs.
type Options struct {
	// Fetch returns a set in its canonical form. The message of its error is for users.
	Fetch func(ctx context.Context, uri string) (string, error)
	// Refresh is how long a set is good until it is fetched again; 0 stands for the default.
	Refresh time.Duration
	// Root is the root namespace, which the shares of others do not bind.
	Root    string
	Metrics *observe.Keys
	Log     *slog.Logger
}

// Demand is what the mesh wants of one set.
type Demand struct {
	URI    string
	Wanted bool
	// Timeout is how long fetching it may take; 0 stands for the default.
	Timeout time.Duration
	// Names are the changes in who names the set.
	Names []Naming
	// Known is what the mesh has of the set, if it has anything.
	Known *jwks.Entry
}

// Naming says how many policies of a namespace name a set more than before, or fewer.
type Naming struct {
	Namespace string
	More      int
}

// Keeper knows which sets the mesh wants, and keeps them fresh while it runs. Update may be called
// whether it runs or not.
type Keeper struct {
	o       Options
	changed chan struct{} // latest-value: Update was called

	mu   sync.Mutex
	sets sets
}

// NewKeeper returns a Keeper. It fetches nothing before Run.
func NewKeeper(o Options) *Keeper {
	sets := newSets(cmp.Or(o.Refresh, defaultRefresh), o.Root, rand.Float64)
	return &Keeper{o: o, changed: make(chan struct{}, 1), sets: sets}
}

// Update says what has changed in what the mesh wants. It does not block.
func (k *Keeper) Update(demands []Demand) {
	if len(demands) == 0 {
		return
	}
	k.mu.Lock()
	now := time.Now()
	for _, d := range demands {
		k.sets.demand(d, now)
	}
	k.sets.settle(now)
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// maxFetches is how many sets are fetched at a time. The others wait, the first that was due first.
const maxFetches = 8

// deliverAgain is after how long a delivery that failed is tried again.
const deliverAgain = 5 * time.Second

// fetched is the outcome of fetching a set.
type fetched struct {
	uri, keys string
	err       error
}

// Run fetches what is wanted, and delivers all entries whenever one has changed, until ctx ends.
func (k *Keeper) Run(ctx context.Context, deliver func(context.Context, []jwks.Entry) error) {
	results := make(chan fetched, maxFetches)
	var running sync.WaitGroup
	defer running.Wait()
	busy := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	k.mu.Lock()
	k.sets.begin(time.Now())
	k.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
		case <-timer.C:
		case r := <-results:
			busy--
			k.note(r)
		}
		for _, s := range k.due(maxFetches - busy) {
			busy++
			running.Go(func() { results <- k.fetch(ctx, s) })
		}
		again := k.deliver(ctx, deliver)
		timer.Reset(min(again, k.wait(maxFetches-busy)))
	}
}

// due takes up to n sets that are to be fetched now.
func (k *Keeper) due(n int) []set {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sets.due(n, time.Now())
}

func (k *Keeper) fetch(ctx context.Context, s set) fetched {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	keys, err := k.o.Fetch(ctx, s.uri)
	return fetched{s.uri, keys, err}
}

// note records the outcome of fetching a set.
func (k *Keeper) note(r fetched) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.err == nil {
		k.o.Metrics.Fetched.Inc()
		if err := k.sets.fetched(r.uri, r.keys, time.Now()); err != nil {
			k.o.Log.Warn("a set of keys is left out", "uri", r.uri, "reason", err)
		}
		return
	}
	k.o.Metrics.Failed.Inc()
	if wait, wanted := k.sets.failed(r.uri, r.err, time.Now()); wanted {
		k.o.Log.Warn("a set of keys cannot be fetched", "uri", r.uri, "reason", r.err, "error", causeOf(r.err),
			"again", wait.Round(time.Second))
	}
}

// causeOf returns the error of the network behind one for users.
func causeOf(err error) error {
	if f, ok := err.(failure); ok { //nolint:errorlint // it is never wrapped
		return f.error
	}
	return err
}

// wait returns in how long to look for sets that are due, of which free can be fetched now.
func (k *Keeper) wait(free int) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sets.wait(free, time.Now())
}

// deliver delivers the entries if the mesh does not have them yet. It returns in how long to try
// again.
func (k *Keeper) deliver(ctx context.Context, deliver func(context.Context, []jwks.Entry) error) time.Duration {
	k.mu.Lock()
	entries, left, news := k.sets.news()
	k.mu.Unlock()
	if !news {
		return idle
	}
	k.o.Metrics.LeftOut.Set(float64(left))
	if left > 0 {
		k.o.Log.Error("namespaces name more or larger sets of keys than their shares have room for; "+
			"tokens that need the others are refused", "others", left)
	}
	if err := deliver(ctx, entries); err != nil {
		if ctx.Err() == nil {
			k.o.Log.Error("fetched keys cannot be kept", "error", err, "again", deliverAgain)
		}
		k.mu.Lock()
		k.sets.undelivered()
		k.mu.Unlock()
		return deliverAgain
	}
	return idle
}
