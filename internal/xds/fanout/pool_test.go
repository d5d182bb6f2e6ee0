package fanout_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// pusher is a connection whose pushes say that they have begun and wait until they may end.
type pusher struct {
	*fanout.Conn
	began chan struct{}
	end   chan struct{}
}

func (f *fixture) pusher(class fanout.ClassID) *pusher {
	p := &pusher{Conn: f.connect(class), began: make(chan struct{}, 16), end: make(chan struct{})}
	p.Start(func() bool {
		p.Take()
		p.began <- struct{}{}
		<-p.end
		return true
	})
	return p
}

func TestPoolPushesInOrderAndNeverMoreThanTheThrottle(t *testing.T) {
	f := newFixture(2)
	all := []*pusher{f.pusher(1), f.pusher(2), f.pusher(3), f.pusher(4)}
	for i := range all {
		f.publish(uint64(i+1), fanout.ClassID(i+1))
	}
	<-all[0].began
	<-all[1].began
	require.Empty(t, all[2].began)
	all[1].end <- struct{}{}
	<-all[2].began
	require.Empty(t, all[3].began)
	all[0].end <- struct{}{}
	<-all[3].began
	all[2].end <- struct{}{}
	all[3].end <- struct{}{}
}

func TestYieldGivesTheSlotOfAStuckPushToOthers(t *testing.T) {
	f := newFixture(1)
	stuck, other := f.pusher(1), f.pusher(2)
	f.publish(1, 1)
	<-stuck.began
	f.publish(2, 1, 2)
	stuck.Yield()
	stuck.Yield() // once is enough
	<-other.began
	require.Empty(t, stuck.began, "one push of a connection at a time")
	require.True(t, stuck.Behind())
	other.end <- struct{}{}
	third := f.pusher(3)
	f.publish(3, 3)
	<-third.began // the turn that was given back is there again
	stuck.end <- struct{}{}
	require.Empty(t, stuck.began)
	third.end <- struct{}{}
	<-stuck.began // what came while it was stuck
	stuck.end <- struct{}{}
}

func TestCalmReturnsWhenNoPushIsUnderWay(t *testing.T) {
	f := newFixture(2)
	require.Nil(t, f.hub.Calm())
	one, stuck := f.pusher(1), f.pusher(2)
	f.publish(1, 1, 2)
	<-one.began
	<-stuck.began
	calm := f.hub.Calm()
	one.end <- struct{}{}
	require.Equal(t, calm, f.hub.Calm(), "the other one")
	stuck.Yield()
	<-calm
	require.Nil(t, f.hub.Calm())
	stuck.end <- struct{}{}
}

func TestPokeDuringAPushIsAnotherPush(t *testing.T) {
	f := newFixture(4)
	p := f.pusher(1)
	p.Poke()
	<-p.began
	p.Poke()
	p.Poke()
	require.Empty(t, p.began)
	p.end <- struct{}{}
	<-p.began
	p.end <- struct{}{}
}

func TestStartPushesWhatIsPending(t *testing.T) {
	f := newFixture(1)
	c := f.hub.Register(1, resource.NewState(1), resource.Overlay{})
	var pushed atomic.Bool
	done := make(chan struct{})
	c.Start(func() bool {
		pushed.Store(true)
		close(done)
		return true
	})
	<-done
	require.True(t, pushed.Load())
}

func TestBusySinceCountsPushesInSuccession(t *testing.T) {
	const many = 64
	f := newFixture(1)
	var all []*pusher
	for range many {
		all = append(all, f.pusher(1))
	}
	before := f.clock.Now().Add(-time.Nanosecond)
	push := func(those []*pusher) {
		for _, one := range those {
			<-one.began
			one.end <- struct{}{}
		}
		if calm := f.hub.Calm(); calm != nil {
			<-calm
		}
	}
	f.publish(1, 1)
	push(all)
	require.True(t, f.hub.BusySince(before))
	require.False(t, f.hub.BusySince(f.clock.Now()))

	f = newFixture(1)
	few := []*pusher{f.pusher(1), f.pusher(1)}
	for n := range uint64(many) {
		f.publish(n+1, 1)
		push(few)
	}
	require.False(t, f.hub.BusySince(before))
}

// A push that finds nothing to do is counted, and keeps no newcomers back.
func TestPushesThatFindNothingDoNotCountAsBusy(t *testing.T) {
	f := newFixture(1)
	c := f.connect(1)
	done := make(chan struct{})
	c.Start(func() bool {
		done <- struct{}{}
		return false
	})
	before := f.clock.Now().Add(-time.Nanosecond)
	const many = 200
	c.Poke()
	for range many {
		<-done
		c.Poke()
	}
	<-done
	if calm := f.hub.Calm(); calm != nil {
		<-calm
	}
	require.False(t, f.hub.BusySince(before))
	require.GreaterOrEqual(t, sum(t, f.metrics, "lateen_empty_pushes_total"), float64(many))
}

// The saturation of the pool is the rate of the busy seconds, divided by the slots.
func TestTheUseOfSlotsIsCounted(t *testing.T) {
	f := newFixture(3)
	a, b := f.pusher(1), f.pusher(2)
	busy := func(n float64) func() bool {
		return func() bool { return sum(t, f.metrics, "lateen_push_slots_busy") == n }
	}
	f.publish(1, 1, 2)
	<-a.began
	<-b.began
	require.InDelta(t, 3, sum(t, f.metrics, "lateen_push_slots"), 0)
	require.True(t, busy(2)())
	f.clock.advance(2 * time.Second)
	a.end <- struct{}{}
	require.Eventually(t, busy(1), time.Minute, time.Millisecond)
	require.InDelta(t, 4, sum(t, f.metrics, "lateen_push_busy_seconds_total"), 0)
	f.clock.advance(time.Second)
	b.end <- struct{}{}
	require.Eventually(t, busy(0), time.Minute, time.Millisecond)
	require.InDelta(t, 5, sum(t, f.metrics, "lateen_push_busy_seconds_total"), 0)
}

// TestMoreSlotsAreUsedLessAsAdvised: pushes that fill all slots use half of twice as many
// (observe/advise promises so: PILOT_PUSH_THROTTLE), and none is left out.
func TestMoreSlotsAreUsedLessAsAdvised(t *testing.T) {
	const clients, generations = 60, 100
	const each = 10 * time.Millisecond // what a push takes: three slots are busy at five generations a second
	const between = time.Second / 5
	share := func(slots int) (used float64) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(slots)
			f.hub = fanout.NewHub(fanout.Options{Throttle: slots, Metrics: f.metrics, Now: time.Now})
			var pushes atomic.Int64
			for range clients {
				c := f.connect(1)
				c.Start(func() bool {
					c.Take()
					<-time.After(each)
					pushes.Add(1)
					return true
				})
			}
			began := time.Now()
			for n := range generations {
				f.publish(uint64(n+1), 1)
				<-time.After(between)
				synctest.Wait()
			}
			require.EqualValues(t, clients*generations, pushes.Load())
			used = sum(t, f.metrics, "lateen_push_busy_seconds_total") / time.Since(began).Seconds() / float64(slots)
		})
		return used
	}
	full := share(3)
	require.Greater(t, full, 0.9, "the pool is saturated")
	require.InEpsilon(t, full*3/6, share(6), 0.02)
}
