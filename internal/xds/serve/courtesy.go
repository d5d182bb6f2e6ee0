package serve

import (
	"runtime"
	"time"
)

// courtesy is a pace for newcomers while pushes go on, which leaves most of the CPU to those that wait for a push: with all of it taken, a
// push waits for it at each of its steps. Pushes to a few take next to no time and do not count.
type courtesy struct {
	pushes  Pushes
	garbage *collector
	// How many connections there are, and how many first requests are answered.
	arrive, answer *admission
}

// Pushes is what newcomers have to know of pushes to those who are there. It is fanout's Hub.
type Pushes interface {
	// Calm returns what is closed when no push is under way, nil if none is.
	Calm() <-chan struct{}
	// BusySince tells whether since a time there were pushes to many, one after the other.
	BusySince(t time.Time) bool
}

const (
	// besidePushes is how many newcomers there are in a second for each CPU, and leastBesidePushes for all together: of the 4,096 that the
	// kernel keeps the last has its turn in half of the 20 s that gRPC's clients wait for a connection.
	besidePushes, leastBesidePushes = 200, 400
	// pushesGoOn is how long after a push others are expected.
	pushesGoOn = time.Second
)

func newCourtesy(p Pushes) *courtesy {
	rate, now := float64(max(besidePushes*runtime.GOMAXPROCS(0), leastBesidePushes)), time.Now()
	return &courtesy{pushes: p, garbage: newCollector(), arrive: newAdmission(rate, now, nil), answer: newAdmission(rate, now, nil)}
}

// arrival is how long a connection is to wait, newcomer how long a first request is to. Those who ask wait one after the other, a few at
// a time, and so never for long.
func (c *courtesy) arrival(now time.Time) time.Duration  { return c.wait(c.arrive, now) }
func (c *courtesy) newcomer(now time.Time) time.Duration { return c.wait(c.answer, now) }

func (c *courtesy) wait(at *admission, now time.Time) time.Duration {
	if !c.pushes.BusySince(now.Add(-pushesGoOn)) {
		return 0
	}
	c.garbage.beforehand()
	wait, _ := at.take(now)
	return wait
}
