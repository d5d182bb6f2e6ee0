package fanout_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fixture is a Hub with a clock that the test sets.
type fixture struct {
	hub      *fanout.Hub
	metrics  *observe.Metrics
	clock    *clock
	left     []*fanout.Conn
	through  []uint64
	envoy    time.Duration // Progress.Envoy of the last
	progress []uint64      // those that came further, each time
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var epoch = time.Unix(1_000_000, 0)

func newFixture(throttle int) *fixture {
	f := &fixture{clock: &clock{now: epoch}}
	f.metrics = observe.New(observe.Build{Start: epoch, Now: f.clock.Now})
	f.hub = fanout.NewHub(fanout.Options{
		Throttle: throttle, Metrics: f.metrics, Now: f.clock.Now,
		Left: func(c *fanout.Conn) { f.left = append(f.left, c) },
		Progress: func(p fanout.Progress) {
			f.progress = append(f.progress, p.Generation)
			if p.NearlyAll {
				f.through, f.envoy = append(f.through, p.Generation), p.Envoy
			}
		},
	})
	return f
}

// publish makes generation n, observed now, with new states of the classes.
func (f *fixture) publish(n uint64, classes ...fanout.ClassID) {
	g := fanout.Generation{Number: n, Cause: "test", Observed: f.clock.Now()}
	for _, c := range classes {
		g.Changed = append(g.Changed, fanout.ClassChange{Class: c, State: resource.NewState(n)})
	}
	f.hub.Publish(g)
}

// connect registers a connection that has taken and acknowledged its first state.
func (f *fixture) connect(class fanout.ClassID) *fanout.Conn {
	c := f.hub.Register(class, resource.NewState(0), resource.Overlay{})
	c.Take()
	return c
}

func (f *fixture) record(t *testing.T) fanout.Record {
	t.Helper()
	select {
	case r := <-f.hub.Finished():
		return r
	default:
		t.Fatal("no record")
		return fanout.Record{}
	}
}

func (f *fixture) noRecord(t *testing.T) {
	t.Helper()
	select {
	case r := <-f.hub.Finished():
		t.Fatalf("record too early: %+v", r)
	default:
	}
}

func TestFirstTakeReturnsTheStateOfRegistration(t *testing.T) {
	f := newFixture(1)
	own := resource.Overlay{Pod: "127.0.0.9"}
	state := resource.NewState(3)
	c := f.hub.Register(1, state, own)
	require.True(t, c.Behind())
	p, ok := c.Take()
	require.True(t, ok)
	require.True(t, state == p.State)
	require.Equal(t, own, p.Overlay)
	require.False(t, c.Behind())
	_, ok = c.Take()
	require.False(t, ok)
}

func TestOnlyTheClassThatChangedIsWoken(t *testing.T) {
	f := newFixture(1)
	a, b := f.connect(1), f.connect(2)
	f.publish(1, 1)
	require.True(t, a.Behind())
	require.False(t, b.Behind())
	_, ok := b.Take()
	require.False(t, ok)
}

func TestSlowConnectionHasOnePendingPushWithTheNewestState(t *testing.T) {
	f := newFixture(1)
	c := f.connect(1)
	for n := range uint64(50) {
		f.publish(n+1, 1)
		f.clock.advance(time.Second)
	}
	p, ok := c.Take()
	require.True(t, ok)
	require.EqualValues(t, 50, p.State.Generation())
	require.Equal(t, epoch, p.Offered, "convergence counts from the oldest")
	_, ok = c.Take()
	require.False(t, ok)

	c.Sent(50, fanout.Load{Bytes: 700})
	c.Acknowledged(50)
	for n := range uint64(50) {
		r := f.record(t)
		require.Equal(t, n+1, r.Generation)
		if n < 49 {
			require.Zero(t, r.Bytes)
		} else {
			require.EqualValues(t, 700, r.Bytes)
		}
	}
}

func TestMoveGivesTheOtherClassAndItsState(t *testing.T) {
	f := newFixture(1)
	mover, stays := f.connect(1), f.connect(2)
	f.publish(5, 1)
	p, _ := mover.Take()
	require.EqualValues(t, 5, p.State.Generation())

	store := resource.NewStore()
	target := resource.NewState(2).With(resource.Cluster, store.Build(cluster(t, "a", 1, false)))
	own := resource.Overlay{Pod: "127.0.0.3"}
	f.hub.Publish(
		fanout.Generation{Number: 6, Moved: []fanout.Move{{Conn: mover, Class: 2, State: target, Overlay: own}}},
	)
	require.True(t, mover.Behind())
	require.False(t, stays.Behind())
	require.Equal(t, fanout.ClassID(2), mover.Class())
	require.Equal(t, []int{0, 2}, []int{f.hub.Connections(1), f.hub.Connections(2)})
	p, _ = mover.Take()
	require.Equal(t, target.Sets(), p.State.Sets())
	require.EqualValues(t, 6, p.State.Generation(), "numbers never go back on a connection")
	require.Equal(t, own, p.Overlay)

	f.publish(7, 2)
	p, _ = mover.Take()
	require.Equal(t, own, p.Overlay, "kept")
	mover.Acknowledged(7)
	stays.Acknowledged(7)
	require.EqualValues(t, 5, f.record(t).Generation)
	r := f.record(t)
	require.EqualValues(t, 6, r.Generation)
	require.Equal(t, 1, r.Proxies)
}

func TestMovedIntoAChangedClassCountsOnce(t *testing.T) {
	f := newFixture(1)
	c := f.connect(1)
	f.hub.Publish(fanout.Generation{
		Number:  4,
		Moved:   []fanout.Move{{Conn: c, Class: 2, State: resource.NewState(4)}},
		Changed: []fanout.ClassChange{{Class: 2, State: resource.NewState(4)}},
	})
	c.Acknowledged(4)
	require.Equal(t, 1, f.record(t).Proxies)
}

func TestClosedConnectionIsGone(t *testing.T) {
	f := newFixture(1)
	a, b := f.connect(1), f.connect(1)
	a.Close()
	a.Close()
	require.Equal(t, []*fanout.Conn{a}, f.left)
	require.Equal(t, 1, f.hub.Connections(1))
	b.Close()
	require.Zero(t, f.hub.Connections(1))
	f.hub.Publish(fanout.Generation{
		Number:  1,
		Changed: []fanout.ClassChange{{Class: 1, State: resource.NewState(1)}},
		Moved:   []fanout.Move{{Conn: a, Class: 2, State: resource.NewState(1)}},
	})
	require.False(t, a.Behind())
	require.False(t, b.Behind())
	f.noRecord(t)
}

func TestSettleWaitsForWhatWasOffered(t *testing.T) {
	f := newFixture(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	settled := func(generation uint64) bool { return f.hub.Settle(ctx, generation) == nil }

	a, b := f.connect(1), f.connect(2)
	require.True(t, settled(9), "nothing but the empty state was offered")
	f.publish(5, 1)
	require.True(t, settled(4))
	require.False(t, settled(5))
	f.publish(6, 1, 2)
	a.Acknowledged(5)
	require.True(t, settled(5))
	a.Acknowledged(6)
	require.False(t, settled(6))
	b.Close()
	require.True(t, settled(6))
	require.True(t, settled(7), "generation 7 touched nobody")
}

func TestSettleReturnsWithTheLastAck(t *testing.T) {
	f := newFixture(1)
	a, b := f.connect(1), f.connect(1)
	f.publish(1, 1)
	f.publish(2, 1)
	done := make(chan error)
	go func() { done <- f.hub.Settle(t.Context(), 2) }()
	a.Acknowledged(1)
	b.Acknowledged(2)
	a.Acknowledged(2)
	require.NoError(t, <-done)
}

// Streams come, go and acknowledge while generations are published; each record still adds up.
func TestRecordsAddUpUnderConcurrentUse(t *testing.T) {
	f := newFixture(4)
	const classes, generations = 3, 60
	var conns []*fanout.Conn
	for i := range 60 {
		conns = append(conns, f.hub.Register(fanout.ClassID(i%classes), resource.NewState(0), resource.Overlay{}))
	}
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Add(1)
		done := sync.OnceFunc(wg.Done)
		c.Start(func() bool {
			p, ok := c.Take()
			if !ok {
				return false
			}
			c.Sent(p.State.Generation(), fanout.Load{Bytes: 1})
			c.Acknowledged(p.State.Generation())
			if p.State.Generation() >= generations-uint64(i%2) {
				done()
			}
			return true
		})
	}
	for n := range uint64(generations) {
		f.publish(n+1, 0, 1, 2)
	}
	wg.Wait()
	for _, c := range conns {
		c.Acknowledged(generations)
	}
	seen := 0
	for range generations {
		r := f.record(t)
		seen++
		require.Equal(t, len(conns), r.Proxies)
		require.Zero(t, r.Waiting)
	}
	f.noRecord(t)
	require.Equal(t, generations, seen)
}
