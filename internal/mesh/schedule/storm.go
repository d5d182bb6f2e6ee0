package schedule

import (
	"maps"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// A storm of endpoints is gathered as Istio gathers everything. Mostly it is of one namespace, where a controller runs wild: then that
// namespace's endpoints are gathered apart, and all others leave at their pace as if there were no storm.

const (
	// stormRate is how many changes a second are no longer pods that come and go, ten for each of them, but a list that is read again
	// or a controller that runs wild. Changes are counted off at this rate, and endpoints leave when all but the last have been: in a
	// storm that is never, and they are gathered as Istio gathers them.
	stormRate = 2000
	// stormDepth is how many are left to count off at most, so that a storm is over an eighth of a second after it.
	stormDepth = stormRate / 8
)

// level is of changes that came and were not counted off yet, at stormRate.
type level struct {
	changes float64
	at      time.Time
}

// count notes a change.
func (l *level) count(now time.Time) {
	l.changes = min(max(0, l.changes-stormRate*now.Sub(l.at).Seconds())+1, stormDepth)
	l.at = now
}

// countedOff is when all changes but one will have been counted off.
func (l *level) countedOff() time.Time {
	return l.at.Add(time.Duration(max(0, l.changes-1) / stormRate * float64(time.Second)))
}

// uncount takes back so many.
func (l *level) uncount(changes float64) { l.changes = max(0, l.changes-changes) }

// storm is what a namespace's endpoints do.
type storm struct {
	level    level
	rages    bool
	gathered gathered // of nothing, unless it rages
}

// storms are those of namespaces, with the beginnings of some that may never be one.
type storms struct {
	of       map[string]*storm
	gathered []*storm // that have something to gather
}

func newStorms() storms { return storms{of: map[string]*storm{}} }

// endpointsCame notes a change of endpoints that do not wait with all others.
func (l *Loop) endpointsCame(c source.Change, now time.Time) {
	if l.held != nil {
		l.held.came(c)
	}
	if l.o.Debounce.Endpoints {
		if s := l.weather(c.Key.Namespace, now); s.rages {
			l.storms.add(s, c, now)
			return
		}
	}
	l.paced.add(c, now)
	l.pace.level.count(now)
}

// weather notes that endpoints of a namespace change. A storm breaks when no more changes can be left to count off, and takes along what
// waits already, lest that be a batch more and others wait for it. It is over when all before this one have been counted off, and have left.
func (l *Loop) weather(namespace string, now time.Time) *storm {
	s := l.storms.of[namespace]
	if s == nil {
		s = &storm{gathered: newGathered()}
		l.storms.of[namespace] = s
	}
	s.level.count(now)
	switch {
	case s.rages && s.gathered.empty():
		s.rages = s.level.changes > 1
	case !s.rages && s.level.changes >= stormDepth:
		s.rages = true
		l.pace.level.uncount(s.level.changes)
		first := l.paced.first
		for _, c := range l.paced.takeOf(namespace) {
			l.storms.add(s, c, first)
		}
	}
	return s
}

func (s *storms) add(of *storm, c source.Change, now time.Time) {
	if of.gathered.empty() {
		s.gathered = append(s.gathered, of)
	}
	of.gathered.add(c, now)
}

func (s *storms) empty() bool { return len(s.gathered) == 0 }

// due is when what it has gathered goes: when it is over, or has been quiet, or has lasted for long enough.
func (s *storm) due(quiet, most time.Duration) time.Time {
	return earlier(s.level.countedOff(), s.gathered.due(quiet, most))
}

// due is when the first of them is. It is asked when there are any.
func (s *storms) due(quiet, most time.Duration) time.Time {
	due := s.gathered[0].due(quiet, most)
	for _, other := range s.gathered[1:] {
		due = earlier(due, other.due(quiet, most))
	}
	return due
}

// first is when the oldest change came. It is asked when there are any.
func (s *storms) first() time.Time {
	first := s.gathered[0].gathered.first
	for _, other := range s.gathered[1:] {
		first = earlier(first, other.gathered.first)
	}
	return first
}

// take empties all of them, so that many storms lead to no more batches than one. What else waits of endpoints goes with them, and before
// them: it may be older.
func (s *storms) take() (batch []source.Change) {
	for _, of := range s.gathered {
		batch = append(batch, of.gathered.take()...)
	}
	s.gathered = s.gathered[:0]
	return batch
}

// forget lets go of those that are over.
func (s *storms) forget(now time.Time) {
	maps.DeleteFunc(s.of, func(_ string, of *storm) bool { return of.gathered.empty() && of.level.countedOff().Before(now) })
}

// moved notes where objects stand now.
func (s *storms) moved(p source.Place) {
	for _, of := range s.gathered {
		of.gathered.moved(p)
	}
}

// stormsDue is when what they have gathered goes. It is asked when there are any.
func (l *Loop) stormsDue() time.Time {
	return later(l.pace.next(l.o.Debounce.Early), l.storms.due(l.o.Debounce.After, l.o.Debounce.Max))
}
