package serve

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

func smallEntrance(limit int) *entrance {
	e := newEntrance(newCourtesy(&somePushes{}))
	e.most, e.patience = limit, time.Hour
	return e
}

// Newcomers wait until pushes are over, but not for ever.
func TestNewcomersWaitForPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		pushes := &somePushes{over: over}
		e := newEntrance(newCourtesy(pushes))
		began := time.Now()
		time.AfterFunc(newcomerPatience/2, func() { close(over) })
		require.NoError(t, e.enter(t.Context()))
		require.Equal(t, newcomerPatience/2, time.Since(began))
		e.leave()

		pushes.over = make(chan struct{})
		var u underway
		e.sent(&u, e.most)
		require.NoError(t, e.enter(t.Context()))
		require.Equal(t, newcomerPatience+newcomerPatience/2, time.Since(began), "for both together")
		e.leave()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, e.enter(ctx), context.Canceled)
		require.Empty(t, e.door)
	})
}

// Newcomers wait while too much is under way.
func TestNewcomersWaitForThoseWhoBegin(t *testing.T) {
	e := smallEntrance(100)
	free := func() bool { return e.wait() == nil }
	var a, b underway
	e.sent(&a, 60)
	require.True(t, free())
	e.sent(&b, 20)
	e.sent(&a, 20)
	require.False(t, free())
	e.arrived(&b)
	e.arrived(&b)
	require.True(t, free(), "b has it")
	e.sent(&b, 20)
	require.False(t, free(), "and is sent more")
	e.arrived(&a)
	e.arrived(&b)
	require.Zero(t, e.bytes)
}

func TestNewcomersEnterInTurn(t *testing.T) {
	e := smallEntrance(100)
	var u underway
	e.sent(&u, 100)

	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan error)
	for range 2 * cap(e.door) {
		go func() { entered <- e.enter(ctx) }()
	}
	cancel()
	for range 2 * cap(e.door) {
		require.ErrorIs(t, <-entered, context.Canceled)
	}
	require.Empty(t, e.door, "who goes holds no door")

	for range 2 * cap(e.door) {
		go func() { entered <- e.enter(t.Context()) }()
	}
	e.arrived(&u)
	for range cap(e.door) {
		require.NoError(t, <-entered)
	}
	require.Len(t, e.door, cap(e.door), "the others are outside")
	for range cap(e.door) {
		e.leave()
		require.NoError(t, <-entered)
	}
}

// Clients that take their time hold up a fleet for a moment each at most.
func TestNewcomersAreLetInAtSomePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEntrance(newCourtesy(&somePushes{}))
		var u underway
		e.sent(&u, e.most)
		began := time.Now()
		var all sync.WaitGroup
		for range 50 * cap(e.door) {
			all.Go(func() {
				require.NoError(t, e.enter(t.Context()))
				e.leave()
			})
		}
		all.Wait()
		require.Equal(t, 50*newcomerPatience, time.Since(began))
	})
}

// Whoever comes while clients do not take what they were sent is let in all the same; who goes leaves nothing behind.
func TestTheDeafDelayNobody(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.Write = time.Hour })
	f.server.entrance.most = 1
	f.publish(f.clusters(2, 20<<10, "a", "b"))
	var all []deltaStream
	for range 3 * cap(f.server.entrance.door) {
		d := f.delta(slowNode())
		all = append(all, d)
	}
	reader := f.delta(nodeOf("sidecar~127.0.0.3~b.default~default.svc.cluster.local"))
	reader.ack(reader.recv())
	for _, d := range append(all, reader) {
		d.cancel()
	}
	f.eventually("gone", func() bool { return f.hub.Connections(class) == 0 })
	e := f.server.entrance
	f.eventually("nothing is left", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.bytes == 0 && len(e.door) == 0
	})
}

// A request is not read before there is a place in the hall; who goes outside of it takes none.
func TestFirstRequestsAreReadInTurn(t *testing.T) {
	f := newFixture(t)
	hall := f.server.entrance.hall
	for range cap(hall) {
		require.NoError(t, hall.take(t.Context()))
	}
	waiting := func(n float64) func() bool {
		return func() bool { return f.value("lateen_xds_waiting_streams") == n }
	}
	goes, stays := f.delta(nodeOf(reviewsID)), f.delta(nodeOf(reviewsID))
	f.eventually("outside", waiting(2))
	goes.cancel()
	f.eventually("gone", waiting(1))
	require.Zero(t, f.value("pilot_xds_recv_max"), "nothing was read")
	hall.give()
	stays.ack(stays.recv())
	f.eventually("in, and out of the hall", func() bool { return len(hall) == cap(hall)-1 })
	for range cap(hall) - 1 {
		hall.give()
	}
}

// believing counts those whom it has let pass.
type believing struct{ passed atomic.Int64 }

func (b *believing) Authenticate(context.Context, metadata.MD) (Identity, error) {
	b.passed.Add(1)
	return Identity{}, nil
}

// Whoever says nothing does not stay in the hall.
func TestTheSilentDelayNobody(t *testing.T) {
	var door believing
	f := newFixture(t, func(o *Options) { o.Limits.FirstRequest, o.Authenticator = time.Hour, &door })
	hall := f.server.entrance.hall
	for range 2 * cap(hall) {
		_, err := f.client.DeltaAggregatedResources(t.Context())
		require.NoError(t, err)
	}
	f.eventually("there", func() bool { return int(door.passed.Load()) == 2*cap(hall) })
	f.eventually("neither outside nor in the hall", func() bool { return f.value("lateen_xds_waiting_streams") == 0 && len(hall) == 0 })
	d := f.delta(nodeOf(reviewsID))
	d.ack(d.recv())
}

func TestOnlyFirstAnswersAreUnderWay(t *testing.T) {
	var s types
	require.True(t, s.add(resource.Cluster))
	require.True(t, s.add(resource.Secret))
	require.True(t, s.add(resource.NumTypes))
	require.False(t, s.add(resource.Cluster))
	require.False(t, s.add(resource.NumTypes))
	require.True(t, s.add(resource.Listener))
}
