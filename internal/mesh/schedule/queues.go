package schedule

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// queues hold the changes that wait, and all that decides when they leave. They are data: time is
// an argument, and nothing here waits or converts. Ask next; TestQueues shows each of its rules.
type queues struct {
	debounce Debounce

	// synced is set when the source has delivered its initial state, started when that has left.
	synced, started bool

	// policies are changes of policies, which do not wait.
	policies changeQueue
	// pending are the changes that wait for a quiet period: all but endpoints and policies.
	pending changeQueue
	// endpoints are those that wait for the pace of the proxies, unless they wait with all others.
	endpoints changeQueue
	// overload are endpoints of overloaded namespaces.
	overload overloads

	// held is the batch that left early and is not published yet, nil if there is none: what
	// follows may make it whole.
	held *batch

	quiet  quietTracker
	steady steadyPace
	pace   deliveryPace
	// load is of the endpoints that are not of overloaded namespaces.
	load leakyBucket
	// graceEnds is when the first endpoint that slices have lost is given up (endpointGrace); zero
	// if there is none.
	graceEnds time.Time
}

func newQueues(d Debounce) queues {
	return queues{
		debounce:  d,
		policies:  newChangeQueue(),
		pending:   newChangeQueue(),
		endpoints: newChangeQueue(),
		overload:  newOverloads(),
		steady:    newSteadyPace(),
		load:      newLeakyBucket(endpointRate),
	}
}

// selection is which of the changes that wait leave.
type selection uint8

const (
	nothing selection = iota
	everything
	endpointsOnly
	policiesOnly
)

// decision is what leaves now, or when to look again.
type decision struct {
	leave selection
	// drainFirst tells to take in first what has arrived already: it may belong to the same batch.
	drainFirst bool
	// recheckAt is when something leaves, unless changes come before.
	recheckAt time.Time
}

// idlePeriod is when the queues are looked at again if nothing waits.
const idlePeriod = time.Hour

// next decides what leaves now. It changes nothing.
func (q *queues) next(now time.Time) decision {
	switch {
	case !q.synced:
		return decision{recheckAt: now.Add(idlePeriod)}
	case !q.started:
		return decision{leave: everything} // the initial state does not wait
	}
	policies := q.policiesDue(now)
	if !policies.After(now) {
		return q.policiesLeave(now)
	}
	leave, due := everything, q.everythingDue(now)
	if q.held == nil && due.After(now) {
		if alone := q.endpointsDue(now); alone.Before(due) {
			leave, due = endpointsOnly, alone
		}
	}
	if due.After(now) {
		return decision{recheckAt: earlier(due, policies)}
	}
	return decision{leave: leave, drainFirst: q.drainFirst(leave, now)}
}

// everythingDue is when all that waits leaves: once the pending changes are due. A held batch
// leaves with the next one, or alone when it has waited for its endpoints long enough.
func (q *queues) everythingDue(now time.Time) time.Time {
	due := now.Add(idlePeriod)
	if !q.pending.empty() || q.holdsConfiguration() {
		due = earlier(q.pending.newest.Add(q.quietPeriod()), q.steadyDue())
	}
	if q.holdsConfiguration() && !q.held.newErrors {
		due = earlier(due, q.held.awaitsUntil(q.debounce.After))
	}
	return due
}

// endpointsDue is when endpoints leave without anything else: those that have changed, or those
// that slices have lost. What waits with all others may have these, so that they wait with it.
func (q *queues) endpointsDue(now time.Time) time.Time {
	due := now.Add(idlePeriod)
	if !q.endpoints.empty() {
		due = q.pacedDue()
	}
	if !q.overload.empty() {
		due = earlier(due, q.overloadDue())
	}
	if !q.graceEnds.IsZero() && (q.debounce.separateEndpoints() || q.pending.empty()) {
		due = earlier(due, q.graceEnds)
	}
	return due
}

// pacedDue is when the endpoints that have changed leave: at the pace of the proxies, and not
// before their bucket has drained to the last change. While more come than leak out, they are
// gathered as istiod gathers everything.
func (q *queues) pacedDue() time.Time {
	if !q.debounce.Endpoints {
		return q.endpoints.oldest
	}
	due, drained := q.pace.next(q.debounce.Early), q.load.drainedAt()
	if !drained.After(due) {
		return due
	}
	if gathered := q.endpoints.due(q.debounce.After, q.debounce.Max); gathered.Before(drained) {
		return later(due, gathered)
	}
	return drained
}

// overloadDue is when endpoints of overloaded namespaces leave. It is asked when there are any.
func (q *queues) overloadDue() time.Time {
	return later(q.pace.next(q.debounce.Early), q.overload.due(q.debounce.After, q.debounce.Max))
}

// quietPeriod is for how long nothing must have come before the pending changes leave.
func (q *queues) quietPeriod() time.Duration {
	switch {
	case q.isBurstTail():
		return q.debounce.Early
	case q.canFlushNow() && q.pending.hasRemoval():
		return q.debounce.Early // it may be about to come back, as with "kubectl replace"
	case q.canFlushNow():
		return 0
	}
	return q.debounce.After
}

// canFlushNow reports whether the pending changes skip the usual quiet period: they are few, and
// come after a calm.
func (q *queues) canFlushNow() bool {
	return q.held == nil && q.isSmall() && q.quiet.affordsExtra()
}

// isBurstTail reports whether the pending changes follow a first one that has left at once, or is
// held for what follows, and may be all that does. What follows it within Debounce.Early, and
// within as much of each other, is the tail of one apply: it needs the short quiet period alone.
// What comes slower may never be quiet, and there each batch is a cost.
func (q *queues) isBurstTail() bool {
	return (q.holdsConfiguration() || q.quiet.firstFlushed) && !q.quiet.slow && !q.pending.empty() && q.isSmall()
}

// smallBatch is how many changes may leave early: more objects come from an apply that is still
// going on, or from a list.
const smallBatch = 32

func (q *queues) isSmall() bool {
	return q.debounce.Early > 0 && q.pending.len() <= smallBatch && q.started
}

// completesHeld reports whether the held batch leaves because nothing is wrong with it any more and
// it has what it lacked, or has waited for that long enough: without the usual quiet period.
func (q *queues) completesHeld(now time.Time) bool {
	return q.holdsConfiguration() && !q.held.newErrors && now.Before(q.pending.newest.Add(q.debounce.After))
}

// drainFirst reports whether what leaves now leaves early, and has not waited for Debounce.Early to
// be joined by what has arrived with it. Amid an overload something always has arrived.
func (q *queues) drainFirst(leave selection, now time.Time) bool {
	switch least := q.debounce.Early; {
	case least == 0 || !q.overload.empty():
		return false
	case leave == endpointsOnly:
		return now.Sub(q.endpoints.oldest) < least
	default:
		return q.canFlushNow() && now.Sub(q.pending.oldest) < least
	}
}

// empty reports whether nothing waits. Endpoints in their grace do not wait: they are there.
func (q *queues) empty() bool {
	return q.policies.empty() && q.pending.empty() && q.endpoints.empty() && q.overload.empty() && q.held == nil
}

func isEndpoints(k kinds.Kind) bool { return k == kinds.EndpointSlice || k == kinds.Pod }

// add takes in a change.
func (q *queues) add(c source.Change, now time.Time) {
	switch {
	case !q.synced:
		q.pending.add(c, now)
	case isPolicy(c.Key.Kind):
		q.policies.add(c, now)
	case isEndpoints(c.Key.Kind) && q.debounce.separateEndpoints():
		q.addEndpoints(c, now)
	default:
		q.quiet.changed(now.Sub(q.pending.newest), &q.debounce)
		q.steady.changed(now)
		q.pending.add(c, now)
		if q.holdsConfiguration() {
			q.pending.oldest = q.held.oldest // they leave together
		}
	}
}

func (q *queues) addEndpoints(c source.Change, now time.Time) {
	if q.held != nil {
		q.held.endpointsCame(c)
	}
	if q.debounce.Endpoints {
		if n := q.loadOf(c.Key.Namespace, now); n.overloaded {
			q.overload.add(n, c, now)
			return
		}
	}
	q.endpoints.add(c, now)
	q.load.add(now)
}

// loadOf notes that endpoints of a namespace change. It is overloaded when its bucket is full, and
// gathers what waits of it already, lest that be a batch more and others wait for it. The overload
// is over when the bucket has drained and what was gathered has left.
func (q *queues) loadOf(namespace string, now time.Time) *namespaceLoad {
	n := q.overload.of(namespace)
	n.bucket.add(now)
	switch {
	case n.overloaded && n.waiting.empty():
		n.overloaded = n.bucket.level > 1
	case !n.overloaded && n.bucket.full():
		n.overloaded = true
		q.load.remove(n.bucket.level)
		oldest := q.endpoints.oldest
		for _, c := range q.endpoints.takeNamespace(namespace) {
			q.overload.add(n, c, oldest)
		}
	}
	return n
}

// sync notes that the source has delivered its initial state. It does not wait, and nothing waits
// for a quiet period after it.
func (q *queues) sync() {
	q.synced = true
	q.pending.oldest, q.pending.newest = time.Time{}, time.Time{}
}

// move notes where an object stands now.
func (q *queues) move(p source.Place) {
	q.policies.move(p)
	q.pending.move(p)
	q.endpoints.move(p)
	q.overload.move(p)
}

// take empties what leaves, and gives it with the batch that it is part of: a new one, or the one
// that is held.
func (q *queues) take(leave selection, now time.Time) (*batch, []source.Change) {
	defer q.overload.forget(now)
	switch leave {
	case endpointsOnly:
		return q.takeEndpoints(now)
	case policiesOnly:
		return q.takePolicies(now)
	}
	b := q.held
	if b == nil {
		b = &batch{oldest: q.pending.oldest}
	}
	b.changes, b.steppedAt, b.unquiet = true, now, q.leavesUnquiet(now)
	b.early = q.canFlushNow() || q.isBurstTail() || q.completesHeld(now)
	b.mayBeHeld = b.early || b.unquiet && !q.quiet.heldInVain && now.Before(b.oldest.Add(heldPatience))
	q.joinPolicies(b, now)
	return b, slices.Concat(q.policies.take(), q.pending.take(), q.endpoints.take(), q.overload.take())
}

// takeEndpoints takes what changed at the pace of the proxies, and with it what overloaded
// namespaces have gathered, if that is due.
func (q *queues) takeEndpoints(now time.Time) (*batch, []source.Change) {
	b := &batch{}
	var changes []source.Change
	if !q.endpoints.empty() {
		b.oldest, changes = q.endpoints.oldest, q.endpoints.take()
	}
	if !q.overload.empty() && !q.overloadDue().After(now) {
		if oldest := q.overload.oldest(); b.oldest.IsZero() || oldest.Before(b.oldest) {
			b.oldest = oldest
		}
		b.overloaded = len(changes) == 0
		changes = append(changes, q.overload.take()...)
	}
	return b, changes
}

// applied notes what a step of a batch has come to, and reports whether the batch is published now.
// One that left early is held as long as there is something wrong with it, or as it lacks
// endpoints, which changes that follow may bring.
func (q *queues) applied(b *batch, r result, at time.Time) (publish bool) {
	if !b.awaitsUntil(q.debounce.After).After(at) {
		b.awaited = nil
	}
	b.await(r.awaited)
	b.newErrors = r.newErrors
	if b.mayBeHeld && (b.newErrors || len(b.awaited) > 0) {
		q.held = b
		return false
	}
	q.held, q.started = nil, true
	if b.changes {
		q.quiet.left(b.early, b.unquiet)
		q.quiet.heldInVain = q.quiet.heldInVain || b.unquiet && b.newErrors
	}
	return true
}

// published notes that a batch has made a generation. Endpoints do not wait for one that has
// nothing but those of overloaded namespaces.
func (q *queues) published(b *batch, generation uint64, now time.Time) {
	if !b.overloaded {
		q.pace.published(generation, now)
	}
}
