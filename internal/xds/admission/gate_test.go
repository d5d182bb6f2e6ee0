package admission

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// patientGate waits as long as it takes while maxBytes are in flight.
func patientGate(maxBytes int) *Gate {
	g := NewGate(&fakePushes{}, maxBytes)
	g.patience = time.Hour
	return g
}

func TestGateWaitsForPushesUpToItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calm := make(chan struct{})
		pushes := &fakePushes{calm: calm}
		g := NewGate(pushes, 0)
		began := time.Now()
		time.AfterFunc(Patience/2, func() { close(calm) })
		require.NoError(t, g.Enter(t.Context()))
		require.Equal(t, Patience/2, time.Since(began))
		g.Leave()

		pushes.calm = make(chan struct{})
		var f InFlight
		g.Sent(&f, g.maxBytes)
		require.NoError(t, g.Enter(t.Context()))
		require.Equal(t, Patience+Patience/2, time.Since(began), "for pushes and bytes together")
		g.Leave()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, g.Enter(ctx), context.Canceled)
		require.Empty(t, g.slots)
	})
}

func TestGateIsFullWhileTooManyBytesAreInFlight(t *testing.T) {
	g := patientGate(100)
	hasRoom := func() bool { return g.awaitRoom() == nil }
	var a, b InFlight
	g.Sent(&a, 60)
	require.True(t, hasRoom())
	g.Sent(&b, 20)
	g.Sent(&a, 20)
	require.False(t, hasRoom())
	g.Answered(&b)
	g.Answered(&b)
	require.True(t, hasRoom(), "b has answered")
	g.Sent(&b, 20)
	require.False(t, hasRoom(), "b was sent more")
	g.Answered(&a)
	g.Answered(&b)
	streams, bytes := g.Load()
	require.Zero(t, streams)
	require.Zero(t, bytes)
}

func TestGateAdmitsOneStreamPerCPUAtATime(t *testing.T) {
	g := patientGate(100)
	var f InFlight
	g.Sent(&f, 100)

	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan error)
	for range 2 * cap(g.slots) {
		go func() { entered <- g.Enter(ctx) }()
	}
	cancel()
	for range 2 * cap(g.slots) {
		require.ErrorIs(t, <-entered, context.Canceled)
	}
	require.Empty(t, g.slots, "a stream that has ended holds no slot")

	for range 2 * cap(g.slots) {
		go func() { entered <- g.Enter(t.Context()) }()
	}
	g.Answered(&f)
	for range cap(g.slots) {
		require.NoError(t, <-entered)
	}
	require.Len(t, g.slots, cap(g.slots), "the others wait")
	for range cap(g.slots) {
		g.Leave()
		require.NoError(t, <-entered)
	}
}

// Slow clients delay a fleet by no more than the patience for each.
func TestGateAdmitsAtAMinimumRateWhateverClientsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(&fakePushes{}, 0)
		var f InFlight
		g.Sent(&f, g.maxBytes)
		began := time.Now()
		var all sync.WaitGroup
		for range 50 * cap(g.slots) {
			all.Go(func() {
				require.NoError(t, g.Enter(t.Context()))
				g.Leave()
			})
		}
		all.Wait()
		require.Equal(t, 50*Patience, time.Since(began))
	})
}

// A slot of the pushes that stays busy delays a fleet by no more than the patience for each.
func TestGateAdmitsAtAMinimumRateAlthoughASlotStaysBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(&fakePushes{calm: make(chan struct{})}, 0)
		began := time.Now()
		var all sync.WaitGroup
		for range 50 * cap(g.slots) {
			all.Go(func() {
				require.NoError(t, g.Enter(t.Context()))
				g.Leave()
			})
		}
		all.Wait()
		require.Equal(t, 50*Patience, time.Since(began))
	})
}
