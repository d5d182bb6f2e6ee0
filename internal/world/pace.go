package world

import "time"

// Endpoints of a large mesh never cease to change, so that waiting for a quiet is waiting for the maximum. An endpoint stands for
// itself: there is nothing that must come with it. So changed endpoints leave at a pace: that of the proxies that get them.

// pace knows how fast generations come to the proxies, and how fast endpoints change.
type pace struct {
	generation uint64        // the latest one that was published
	at         time.Time     // when it was
	arrived    bool          // at nearly all proxies
	took       time.Duration // that

	level   float64 // of changes that came and were not counted off yet, stormRate a second
	counted time.Time
}

const (
	// slowestPace is the longest that endpoints wait for a generation on its way. One that comes after it takes its place wherever it has not
	// arrived, so that proxies, however many, do not queue for more than one.
	slowestPace = 250 * time.Millisecond
	// stormRate is how many changes a second are no longer pods that come and go, ten for each of them, but a list that is read again
	// or a controller that runs wild. Changes are counted off at this rate, and endpoints leave when all but the last have been: in a
	// storm that is never, and they are gathered as Istio gathers them.
	stormRate = 2000
	// stormDepth is how many are left to count off at most, so that a storm is over an eighth of a second after it.
	stormDepth = stormRate / 8
)

func (p *pace) published(generation uint64, now time.Time) {
	p.generation, p.at, p.arrived = generation, now, false
}

func (p *pace) through(generation uint64, now time.Time) {
	if !p.arrived && generation >= p.generation {
		p.arrived, p.took = true, now.Sub(p.at)
	}
}

// next is the earliest that endpoints may follow the latest generation: as long again as it was on its way, so that this takes half of the
// time at most where the proxies are few enough.
func (p *pace) next(least time.Duration) time.Time {
	if !p.arrived {
		return p.at.Add(slowestPace)
	}
	return p.at.Add(max(least, min(2*p.took, slowestPace)))
}

// count notes a change.
func (p *pace) count(now time.Time) {
	p.level = min(max(0, p.level-stormRate*now.Sub(p.counted).Seconds())+1, stormDepth)
	p.counted = now
}

// countedOff is when all changes but one will have been counted off.
func (p *pace) countedOff() time.Time {
	return p.counted.Add(time.Duration(max(0, p.level-1) / stormRate * float64(time.Second)))
}

// apart tells whether endpoints do not wait with all other changes.
func (l *Loop) apart() bool { return l.o.Debounce.Early > 0 || !l.o.Debounce.Endpoints }

// pacedDue is when the endpoints that have changed go, if nothing else does before.
func (l *Loop) pacedDue() time.Time {
	if !l.o.Debounce.Endpoints {
		return l.paced.first
	}
	due, off := l.pace.next(l.o.Debounce.Early), l.pace.countedOff()
	if !off.After(due) {
		return due
	}
	if gathered := l.paced.due(l.o.Debounce.After, l.o.Debounce.Max); gathered.Before(off) {
		return later(due, gathered)
	}
	return off
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
