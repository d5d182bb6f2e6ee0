package schedule

import (
	"sync/atomic"
	"time"
)

// Endpoints of a large mesh never cease to change, so that waiting for a quiet is waiting for the maximum. An endpoint stands for
// itself: there is nothing that must come with it. So changed endpoints leave at a pace: that of the proxies that get them.

// pace knows how fast generations come to the proxies, and how fast endpoints change.
type pace struct {
	generation uint64        // the latest one that was published
	at         time.Time     // when it was
	moved      time.Time     // when it last came to more of the proxies
	arrived    bool          // at nearly all proxies
	took       time.Duration // that
	paid       time.Time     // when endpoints have waited for all generations that arrived, as long again as each was on its way

	level level // of all but those of storms that are gathered apart
}

const (
	// slowestPace is the longest that endpoints wait for a generation on its way. One that comes after it takes its place wherever it has not
	// arrived, so that proxies, however many, do not queue for more than one.
	slowestPace = 1500 * time.Millisecond
	// standstill is how long a generation comes to nobody else before those that do not have it are taken to be stuck.
	standstill = 500 * time.Millisecond
	// allowance is how much waiting may be left for later: what a single generation takes longer than others delays none after it.
	allowance = 250 * time.Millisecond
)

func (p *pace) published(generation uint64, now time.Time) {
	p.generation, p.at, p.moved, p.arrived = generation, now, now, false
}

func (p *pace) progress(of *progress, now time.Time) {
	if of.some.Swap(0) >= p.generation {
		p.moved = now
	}
	if !p.arrived && of.nearlyAll.Load() >= p.generation {
		p.arrived, p.took = true, now.Sub(p.at)
		p.paid = earlier(later(p.paid, p.at).Add(2*p.took), now.Add(allowance+slowestPace))
	}
}

// next is the earliest that endpoints may follow the latest generation: when it has arrived, and when pushing has taken half of the time
// at most, but for the allowance. The other half is for proxies that come and for what they ask for.
func (p *pace) next(least time.Duration) time.Time {
	slowest := p.at.Add(slowestPace)
	if !p.arrived {
		return earlier(p.moved.Add(standstill), slowest)
	}
	return earlier(later(p.at.Add(max(least, p.took)), p.paid.Add(-allowance)), slowest)
}

// apart tells whether endpoints do not wait with all other changes.
func (l *Loop) apart() bool { return l.o.Debounce.Early > 0 || !l.o.Debounce.Endpoints }

// pacedDue is when the endpoints that have changed go, if nothing else does before.
func (l *Loop) pacedDue() time.Time {
	if !l.o.Debounce.Endpoints {
		return l.paced.first
	}
	due, off := l.pace.next(l.o.Debounce.Early), l.pace.level.countedOff()
	if !off.After(due) {
		return due
	}
	if gathered := l.paced.due(l.o.Debounce.After, l.o.Debounce.Max); gathered.Before(off) {
		return later(due, gathered)
	}
	return off
}

// progress is how far generations have come, told by other goroutines.
type progress struct {
	some      atomic.Uint64 // the latest generation that came to more proxies since the loop has looked
	nearlyAll atomic.Uint64 // the latest that nearly all have
	news      chan struct{} // holds one while the loop has not looked
}

func newProgress() progress { return progress{news: make(chan struct{}, 1)} }

func (p *progress) note(generation uint64, nearlyAll bool) {
	raise(&p.some, generation)
	if nearlyAll {
		raise(&p.nearlyAll, generation)
	}
	select {
	case p.news <- struct{}{}:
	default: // the loop has yet to look
	}
}

func raise(known *atomic.Uint64, to uint64) {
	for was := known.Load(); was < to; was = known.Load() {
		if known.CompareAndSwap(was, to) {
			return
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
