package schedule

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/ingest"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A change that comes after a calm is most often alone, and need not wait as long as one amid others. What may be wrong with that
// is an apply of several objects that depend on each other: a route would go out before its subset, and answer 503 meanwhile.
// So such a batch is applied, looked at, and held as long as any other if something is wrong with it that was not before.
//
// Nor is a Service whole without its endpoints: whoever writes their EndpointSlice sees the Service first. It is held until that comes, so that both
// leave as one, and no longer than a quiet takes.

// heldBatch is what was applied and is not published yet.
type heldBatch struct {
	first   time.Time           // when the oldest of its changes came; zero for the initial state
	settled bool                // there is more in it than endpoints that came at their own pace
	early   bool                // it did not wait for the usual quiet
	storm   bool                // there is nothing in it but storms
	wrong   bool                // an error is in it that was not before
	awaited map[source.Key]bool // the new Services in it of which no EndpointSlice has come
	delta   *state.Delta
	applied []source.Change // for LoopOptions.Applied alone
	count   int             // of updates
}

// await notes what a step lacks that was applied. An alias has its name for an endpoint.
func (b *heldBatch) await(w *state.World, d *state.Delta) {
	for _, p := range d.Services {
		if p.Old != nil || p.New.Kind != kinds.Service || !w.Endpoints(p.New).IsEmpty() {
			continue
		}
		if b.awaited == nil {
			b.awaited = map[source.Key]bool{}
		}
		b.awaited[p.New.Key()] = true
	}
}

// came notes that endpoints have changed, which need not be applied.
func (b *heldBatch) came(c source.Change) { delete(b.awaited, ingest.ServiceOf(c)) }

// awaits is until when it is held for what it lacks.
func (b *heldBatch) awaits(longest time.Duration) time.Time {
	if len(b.awaited) == 0 {
		return b.first
	}
	return b.first.Add(longest)
}

// awaited tells whether the held batch was so for what it lacked alone, without the usual quiet since then.
func (l *Loop) awaited(now time.Time) bool {
	return l.held != nil && !l.held.wrong && now.Before(l.pending.last.Add(l.o.Debounce.After))
}

// Istio makes a batch of each burst; one whose first change has gone at once is a batch more, its rest. What that adds is bounded: for each
// of these there are extraFor of Istio's own, or there was a calm before it.
const (
	extraFor   = 5
	calmPeriod = time.Second
)

// earlyChanges is the largest batch that may be early: more objects come from an apply that is still going on, or from a list.
const earlyChanges = 32

// calm knows how quiet it has been, but for endpoints that come and go at a pace of their own.
type calm struct {
	broken  bool // a batch has gone since the last quiet
	atOnce  bool // and did so at once, alone until now
	slow    bool // a change since the last quiet did not come within a moment of the one before it
	savings int  // batches of Istio's that none was added to
}

// came notes that a change comes after so long a time without any; a moment is the short quiet.
func (c *calm) came(after time.Duration, d Debounce) {
	if after >= d.After {
		*c = calm{savings: c.savings}
	} else if after > d.Early {
		c.slow = true
	}
	if after >= calmPeriod {
		c.savings = extraFor
	}
}

// fired notes a batch.
func (c *calm) fired(early bool) {
	if c.atOnce { // the rest of a burst: together they are one of Istio's
		c.atOnce, c.savings = false, c.savings-extraFor
		return
	}
	c.atOnce = early && !c.broken
	c.broken, c.savings = true, min(c.savings+1, extraFor)
}

// lasts tells whether a change may go at once, even if it is not alone.
func (c *calm) lasts() bool { return !c.broken && c.savings >= extraFor }

// quiet is for how long nothing must have come before the pending batch goes.
func (l *Loop) quiet() time.Duration {
	switch {
	case l.rest(), l.early() && l.removes():
		return l.o.Debounce.Early
	case l.early():
		return 0
	}
	return l.o.Debounce.After
}

// rather tells whether to take what has come already first: the first batch after a quiet does not wait for anything else. In a storm
// something always has.
func (l *Loop) rather(now time.Time, next selection) bool {
	switch least := l.o.Debounce.Early; {
	case len(l.inbox) == 0 || least == 0 || !l.storms.empty():
		return false
	case next == endpointsAlone:
		return now.Sub(l.paced.first) < least
	default:
		return l.early() && now.Sub(l.pending.first) < least
	}
}

// early tells whether the pending batch may go at once, or after a shorter quiet.
func (l *Loop) early() bool {
	return l.held == nil && l.few() && l.calm.lasts()
}

// rest tells whether the pending batch follows a first change that has gone at once, or is held for what follows, and may be all that does.
// What follows it within a moment, and within a moment of each other, is the rest of one apply: it needs a short quiet alone. What comes slower
// is of a storm as likely, and there each batch is a cost.
func (l *Loop) rest() bool {
	return (l.held != nil || l.calm.atOnce) && !l.calm.slow && !l.pending.empty() && l.few()
}

// few tells whether what is pending is little enough to be early.
func (l *Loop) few() bool {
	return l.o.Debounce.Early > 0 && len(l.pending.order) <= earlyChanges && l.writer.World().Generation > 0
}

// removes tells whether an object goes away that may be about to come back, as with "kubectl replace". Endpoints that go are gone.
func (l *Loop) removes() bool {
	for _, k := range l.pending.order {
		if l.pending.changes[k].Object == nil {
			return true
		}
	}
	return false
}
