package schedule

import "time"

// steadyPace says when configuration leaves that changes all the time, where no quiet period ever
// ends its batch. The longest wait follows from what a push costs: most of this process's CPU and
// of each Envoy's main thread is left to others.
type steadyPace struct {
	load     leakyBucket
	overload bool // more changes come than people and their tools make

	// proxiesRested and serverRested are when each has had its rest from all pushes until now.
	proxiesRested, serverRested time.Time
	// open tells that a generation with configuration is on its way: since publishedAt, when this
	// process had been busy for busyBefore.
	open        bool
	publishedAt time.Time
	busyBefore  time.Duration
}

const (
	// configRate is how many changes of configuration a second are no longer edits, but a list that
	// is read again or a controller that runs wild.
	configRate = 200
	// applyPatience is how long the first batch of a burst waits for its end, and heldPatience how
	// long one is held that leaves an error: most likely it is of an apply that goes on.
	applyPatience, heldPatience = 250 * time.Millisecond, 2 * time.Second
	// restOfServer and restOfProxies are how often as long as a push this process and an Envoy's
	// main thread rest, so that pushes take a quarter of the one and a twentieth of the other.
	restOfServer, restOfProxies = 4, 20
	// longestRest is the longest that what was pushed delays configuration, so that nothing is left
	// of a storm soon after it.
	longestRest = 5 * time.Second
)

func newSteadyPace() steadyPace { return steadyPace{load: newLeakyBucket(configRate)} }

// changed notes a change of configuration.
func (p *steadyPace) changed(now time.Time) {
	p.load.add(now)
	p.overload = p.load.full() || p.overload && p.load.level > 1
}

// published notes that a batch with configuration is on its way; busy is for how long this process
// has been so, in all.
func (p *steadyPace) published(now time.Time, busy time.Duration) {
	p.delivered(now, busy) // what is left of the one before
	p.open, p.publishedAt, p.busyBefore = true, now, busy
}

// delivered notes that what is on its way has reached nearly all proxies.
func (p *steadyPace) delivered(now time.Time, busy time.Duration) {
	if p.open {
		p.open = false
		rested := later(p.serverRested, p.publishedAt).Add(restOfServer * (busy - p.busyBefore))
		p.serverRested = earlier(rested, now.Add(longestRest))
	}
}

// proxyBusy notes what a generation took of the main thread of the proxy that had most to do.
func (p *steadyPace) proxyBusy(d time.Duration, now time.Time) {
	p.proxiesRested = earlier(later(p.proxiesRested, now).Add(restOfProxies*d), now.Add(longestRest))
}

// restedAt is when both have rested. As much as a single large push takes is left for later.
func (p *steadyPace) restedAt() time.Time {
	return later(p.proxiesRested, p.serverRested).Add(-restAllowance)
}

// isSteady reports whether configuration leaves at a pace of its own although it is never quiet.
// Whoever sets istiod's variables has istiod's rule. What an overload changes is gathered, and so
// is what else comes with it.
func (q *queues) isSteady() bool { return q.debounce.Steady > 0 && !q.steady.overload && q.started }

// steadyDue is when the pending changes leave although others keep coming.
func (q *queues) steadyDue() time.Time {
	longest := q.pending.oldest.Add(q.debounce.Max)
	if q.debounce.Steady == 0 {
		return longest
	}
	if q.holdsConfiguration() {
		if longest = earlier(longest, q.held.oldest.Add(heldPatience)); q.isSteady() { // what comes may mend it
			longest = earlier(longest, q.held.steppedAt.Add(q.debounce.Steady))
		}
		return longest
	}
	if !q.isSteady() {
		return longest
	}
	wait := q.debounce.Steady
	if !q.quiet.restless {
		wait = applyPatience
	}
	paced := later(q.pace.next(q.debounce.Early), q.steady.restedAt())
	return earlier(later(q.pending.oldest.Add(wait), paced), longest)
}

// holdsConfiguration reports whether a batch is held that did not begin with policies.
func (q *queues) holdsConfiguration() bool { return q.held != nil && !q.held.protects() }

// leavesUnquiet reports whether the pending changes leave now without their quiet period.
func (q *queues) leavesUnquiet(now time.Time) bool {
	return q.isSteady() && now.Before(q.pending.newest.Add(q.quietPeriod()))
}
