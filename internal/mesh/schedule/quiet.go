package schedule

import "time"

// A change that comes after a calm is most often alone, and need not wait as long as one amid
// others. But istiod makes one batch of a burst, and a burst whose first change has left at once is
// two: its tail is an extra batch. What that adds is bounded: for each extra batch there are
// batchesPerExtra others, or a calm came before it.
const (
	batchesPerExtra = 5
	calmPeriod      = time.Second
)

// quietTracker tracks how quiet it has been. Endpoints with a pace of their own do not count.
type quietTracker struct {
	// batchLeft tells that a batch has left since the last quiet period, and firstFlushed that it
	// left at once and is the only one so far: a tail may follow.
	batchLeft, firstFlushed bool
	// slow tells that since then a change came more than Debounce.Early after the one before it.
	slow bool
	// heldInVain tells that a batch has left with an error since then that nothing has mended while
	// it was held. No other is held then: somebody whose changes are wrong all the time would delay
	// everybody's.
	heldInVain bool
	// restless tells that a batch has left since then although others kept coming.
	restless bool
	// credit is how many batches were not extra, up to batchesPerExtra.
	credit int
}

// changed notes a change, and for how long none had come before.
func (t *quietTracker) changed(pause time.Duration, d *Debounce) {
	if pause >= d.After {
		*t = quietTracker{credit: t.credit}
	} else if pause > d.Early {
		t.slow = true
	}
	if pause >= calmPeriod {
		t.credit = batchesPerExtra
	}
}

// left notes that a batch has left: early, after the usual quiet period, or without any.
func (t *quietTracker) left(early, unquiet bool) {
	t.restless = t.restless || unquiet && !early
	if t.firstFlushed { // this is the tail: together with the first it is one batch of istiod's
		t.firstFlushed, t.credit = false, t.credit-batchesPerExtra
		return
	}
	t.firstFlushed = early && !t.batchLeft
	t.batchLeft, t.credit = true, min(t.credit+1, batchesPerExtra)
}

// affordsExtra reports whether the first change may leave at once, even if others follow it.
func (t *quietTracker) affordsExtra() bool { return !t.batchLeft && t.credit >= batchesPerExtra }
