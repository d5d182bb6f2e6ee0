package serve

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/view"
)

func smallEntrance(limit int) *entrance {
	e := newEntrance()
	e.least, e.limit, e.most = limit, limit, 3*limit
	return e
}

// Newcomers wait while too much is under way, until it arrives or is overdue.
func TestNewcomersWaitForThoseWhoBegin(t *testing.T) {
	e := smallEntrance(100)
	now := time.Unix(0, 0)
	free := func() bool {
		roomy, _ := e.wait(now)
		return roomy == nil
	}
	var a, b, c underway
	e.sent(&a, 60, now)
	require.True(t, free())
	e.sent(&b, 20, now.Add(10*time.Millisecond))
	e.sent(&c, 10, now.Add(10*time.Millisecond))
	e.sent(&a, 20, now.Add(10*time.Millisecond))
	require.False(t, free())
	e.arrived(&b)
	e.arrived(&b)
	require.True(t, free(), "b has it")
	e.sent(&b, 20, now.Add(20*time.Millisecond))
	roomy, until := e.wait(now)
	require.NotNil(t, roomy, "and is sent more")
	require.Equal(t, underwayFor, until)

	now = now.Add(underwayFor)
	require.True(t, free(), "a is overdue, with all of it")
	require.Equal(t, 30, e.bytes)
	e.arrived(&a)
	require.Equal(t, 30, e.bytes, "and counts no more")
	e.arrived(&b)
	e.arrived(&c)
	require.Zero(t, e.bytes)
	require.Nil(t, e.first)
	require.Nil(t, e.last)
}

// Where all clients are slow the limit grows until nobody waits, and falls when they are quick again.
func TestSlowClientsRaiseTheLimit(t *testing.T) {
	e := smallEntrance(100)
	now := time.Unix(0, 0)
	for _, want := range []int{200, 300, 300} {
		for e.bytes < e.limit {
			e.sent(&underway{}, 50, now)
		}
		roomy, until := e.wait(now)
		require.NotNil(t, roomy)
		require.Equal(t, underwayFor, until)
		now = now.Add(underwayFor)
		roomy, _ = e.wait(now)
		require.Nil(t, roomy)
		require.Equal(t, want, e.limit)
	}
	var u underway
	e.sent(&u, 40, now)
	e.arrived(&u)
	require.Equal(t, 290, e.limit)
	for range 20 {
		e.sent(&u, 40, now)
		e.arrived(&u)
	}
	require.Equal(t, 100, e.limit)
}

func TestNewcomersEnterInTurn(t *testing.T) {
	e := smallEntrance(100)
	now := time.Now()
	still := func() time.Time { return now } // so that nothing is overdue
	var u underway
	e.sent(&u, 100, now)

	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan error)
	for range 2 * cap(e.door) {
		go func() { entered <- e.enter(ctx, still) }()
	}
	cancel()
	for range 2 * cap(e.door) {
		require.ErrorIs(t, <-entered, context.Canceled)
	}
	require.Empty(t, e.door, "who goes holds no door")

	for range 2 * cap(e.door) {
		go func() { entered <- e.enter(t.Context(), still) }()
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

// Whoever comes while clients do not take what they were sent is let in all the same; who goes leaves nothing behind.
func TestTheDeafDelayNobody(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.Write = time.Hour })
	f.server.entrance = smallEntrance(1)
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
		return e.bytes == 0 && e.first == nil && len(e.door) == 0
	})
}

func TestOnlyFirstAnswersAreUnderWay(t *testing.T) {
	var s types
	require.True(t, s.add(view.Cluster))
	require.True(t, s.add(view.Secret))
	require.True(t, s.add(view.NumTypes))
	require.False(t, s.add(view.Cluster))
	require.False(t, s.add(view.NumTypes))
	require.True(t, s.add(view.Listener))
}
