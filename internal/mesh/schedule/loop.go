package schedule

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/ingest"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/mesh/validate"
	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// inboxSize bounds the events that wait for the loop; a source that delivers into a full inbox waits.
const inboxSize = 64

// Debounce says how changes are gathered before they are applied as one batch.
type Debounce struct {
	// After is the quiet period that ends a batch (PILOT_DEBOUNCE_AFTER).
	After time.Duration
	// Max is the longest that a change waits (PILOT_DEBOUNCE_MAX).
	Max time.Duration
	// Early lets the first change after a quiet go at once, if it leaves nothing in need of what may follow: no route without its subset,
	// no object that is refused. It is for how long a removal waits even so, and what follows the first change without a longer pause; and the
	// least time between two batches of endpoints (LATEEN_DEBOUNCE_EARLY). 0 is never.
	Early time.Duration
	// Endpoints tells whether changes of endpoints wait too (PILOT_ENABLE_EDS_DEBOUNCE): with all others if Early is 0, else at a pace
	// of their own.
	Endpoints bool
	// Moves is for how long an endpoint is kept that a slice has lost, and that may be about to appear in another (see bridge.go);
	// 0 is not at all (LATEEN_DEBOUNCE_MOVES).
	Moves time.Duration
}

// LoopOptions are what a Loop needs.
type LoopOptions struct {
	Converter *ingest.Converter
	Mesh      model.MeshConfig // until a ConfigMap says otherwise
	Debounce  Debounce
	// Publish gets each generation, in order, in the loop's goroutine.
	Publish func(*state.World, *state.Delta)
	// Batched is told of each batch: how many changes, and how long the first of them waited.
	Batched func(changes int, waited time.Duration)
	// Arrived is told of each change as it comes.
	Arrived func(source.Change)
	// Applied is told of the changes of each batch to objects of Istio's kinds, once they are published and what is wrong with them is
	// known; of none, when there were none, or only reports of a source have changed what is wrong. It may be nil.
	Applied  func([]source.Change)
	Problems *validate.ProblemStore
	Logger   *slog.Logger
}

// Loop is the one writer of the world as a goroutine: it takes events, waits until they have settled, converts and
// applies them, and publishes the generation. Events of an object are taken in order; within a batch the latest one counts.
type Loop struct {
	o      LoopOptions
	inbox  chan message
	writer *state.Writer
	mesh   model.MeshConfig
	synced bool

	// pending are changes that wait for a quiet, paced those of endpoints, unless they wait with all others, and storms those of
	// namespaces where they change too often.
	pending, paced gathered
	pace           pace
	storms         storms
	arriving       progress
	first          *firstState // nil once the initial state is applied

	// held is what was applied early and is not published yet, nil if nothing is: it left something wrong that what follows may mend.
	held *heldBatch
	calm calm

	bridges bridges

	// flushing wait for the pending batch to be published.
	flushing []chan<- uint64

	// ingressClasses are those of Istio's controller: which Ingresses are for the mesh depends on them.
	ingressClasses map[string]bool

	// kept are changes whose meaning depends on the mesh configuration, to be converted again when it changes.
	kept map[source.Key]source.Change

	checker *validate.Checker
}

// message is an event, or a question for the generation that everything before it is in.
type message struct {
	event source.Event
	flush chan<- uint64
}

// NewLoop makes a loop over an empty world.
func NewLoop(o LoopOptions) *Loop {
	return &Loop{
		o: o, inbox: make(chan message, inboxSize), arriving: newProgress(), writer: state.NewWriter(), mesh: o.Mesh,
		ingressClasses: map[string]bool{}, pending: newGathered(), paced: newGathered(), storms: newStorms(), bridges: newBridges(),
		first: newFirstState(), kept: map[source.Key]source.Change{}, checker: validate.NewChecker(o.Problems),
	}
}

// Sink delivers an event to the loop; it blocks while the inbox is full, until ctx ends.
func (l *Loop) Sink(ctx context.Context) source.Sink {
	return func(e source.Event) {
		select {
		case l.inbox <- message{event: e}:
		case <-ctx.Done():
		}
	}
}

// Flush waits until everything that was delivered before it has been published, and returns the generation that it is in.
// It does not shorten the debounce.
func (l *Loop) Flush(ctx context.Context) (generation uint64, err error) {
	done := make(chan uint64, 1)
	select {
	case l.inbox <- message{flush: done}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case generation = <-done:
		return generation, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Progress tells that a generation has come to more of the proxies that it concerns, or to nearly all: the next endpoints that change
// wait for that, within bounds. It does not block and may be called by anyone.
func (l *Loop) Progress(generation uint64, nearlyAll bool) { l.arriving.note(generation, nearlyAll) }

// Run works until ctx ends. Nothing is published before a source has said that it is synced.
func (l *Loop) Run(ctx context.Context) error {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-l.inbox:
			l.take(m.event)
			if m.flush != nil {
				l.flushing = append(l.flushing, m.flush)
			}
		case <-l.arriving.news:
			l.pace.progress(&l.arriving, time.Now())
		case <-timer.C:
		}
		now := time.Now()
		wait, next := l.wait(now)
		if wait <= 0 && l.rather(now, next) {
			continue
		}
		for ; wait <= 0; wait, next = l.wait(time.Now()) { // what is held waits on
			l.fire(next)
		}
		if l.idle() && l.bridges.empty() && l.synced {
			l.answer()
		}
		timer.Reset(wait)
	}
}

// idle tells that nothing waits.
func (l *Loop) idle() bool {
	return l.pending.empty() && l.paced.empty() && l.storms.empty() && l.held == nil
}

// never is how long the loop sleeps when nothing is pending; any message wakes it.
const never = time.Hour

func (l *Loop) answer() {
	for _, done := range l.flushing {
		done <- l.writer.World().Generation
	}
	l.flushing = nil
}

func (l *Loop) take(e source.Event) {
	now := time.Now()
	for _, c := range e.Changes {
		switch {
		case !l.synced:
			l.pending.add(c, now)
			l.readAhead()
		case isEndpoints(c.Key.Kind) && l.apart():
			l.endpointsCame(c, now)
		default:
			l.calm.came(now.Sub(l.pending.last), l.o.Debounce)
			l.pending.add(c, now)
			if l.held != nil {
				l.pending.first = l.held.first
			}
		}
		l.o.Arrived(c)
	}
	l.move(e.Moved)
	for _, r := range e.Reports {
		l.o.Problems.Report(r)
	}
	if l.o.Applied != nil && len(e.Reports) > 0 && l.idle() && l.writer.World().Generation > 0 {
		l.o.Applied(nil)
	}
	if e.Synced && !l.synced {
		l.synced = true
		l.pending.first = time.Time{} // the initial state does not wait,
		l.pending.last = time.Time{}  // and nothing waits for a quiet after it
	}
}

// move notes where objects stand now; what is said of them follows at once.
func (l *Loop) move(places []source.Place) {
	if len(places) == 0 {
		return
	}
	for _, p := range places {
		l.pending.moved(p)
		l.paced.moved(p)
		l.storms.moved(p)
		moved(l.kept, p)
	}
	l.o.Problems.Move(places)
}

// selection is what a batch takes of what waits.
type selection uint8

const (
	everything selection = iota
	endpointsAlone
)

// wait is how long it still takes until a batch is due, and what is in it then.
func (l *Loop) wait(now time.Time) (wait time.Duration, next selection) {
	if !l.synced {
		return never, everything
	}
	if l.writer.World().Generation == 0 {
		return 0, everything // the initial state does not wait
	}
	wait = never
	if !l.pending.empty() || l.held != nil {
		wait = l.pending.due(l.quiet(), l.o.Debounce.Max).Sub(now)
	}
	if l.held != nil && !l.held.wrong {
		wait = min(wait, l.held.awaits(l.o.Debounce.After).Sub(now))
	}
	if l.held != nil || wait <= 0 {
		return wait, everything
	}
	if alone := l.endpointsDue(now); alone < wait {
		return alone, endpointsAlone
	}
	return wait, everything
}

// endpointsDue is how long it still takes until endpoints go without anything else: those that have changed, or those that were lost. What
// waits with all others may have these, so that they wait with it.
func (l *Loop) endpointsDue(now time.Time) time.Duration {
	wait := never
	if !l.paced.empty() {
		wait = l.pacedDue().Sub(now)
	}
	if !l.storms.empty() {
		wait = min(wait, l.stormsDue().Sub(now))
	}
	if !l.bridges.empty() && (l.apart() || l.pending.empty()) {
		wait = min(wait, l.bridges.due.Sub(now))
	}
	return wait
}

func isEndpoints(k kinds.Kind) bool { return k == kinds.EndpointSlice || k == kinds.Pod }

// takeEndpoints takes those that leave without anything else, and tells when the oldest came, zero for none, and whether they are of storms
// alone.
func (l *Loop) takeEndpoints(now time.Time) (batch []source.Change, first time.Time, storm bool) {
	if !l.paced.empty() {
		first, batch = l.paced.first, l.paced.take()
	}
	if !l.storms.empty() && !l.stormsDue().After(now) {
		if oldest := l.storms.first(); first.IsZero() || oldest.Before(first) {
			first = oldest
		}
		storm = len(batch) == 0
		batch = append(batch, l.storms.take()...)
	}
	return batch, first, storm
}

// fire converts and applies what is due, and publishes it unless it should be held.
func (l *Loop) fire(what selection) {
	now := time.Now()
	b, early := l.held, false
	if b == nil {
		b = &heldBatch{first: l.pending.first}
	}
	var batch []source.Change
	if what == endpointsAlone {
		batch, b.first, b.storm = l.takeEndpoints(now)
	} else {
		early, b.settled = l.early() || l.rest() || l.awaited(now), true
		batch = slices.Concat(l.pending.take(), l.paced.take(), l.storms.take())
	}
	l.storms.forget(now)
	updates, told := l.withFirst(l.convert(batch), l.told(batch))
	b.applied = append(b.applied, told...)
	next, delta := l.cross(l.writer.Apply(updates))
	l.checker.Check(next, delta)
	b.count += len(updates)
	b.delta = b.delta.Then(delta)
	if !b.awaits(l.o.Debounce.After).After(now) {
		b.awaited = nil
	}
	b.await(next, delta)
	if b.wrong = l.o.Problems.HasNewErrors(); early && (b.wrong || len(b.awaited) > 0) {
		l.held = b
		return
	}
	l.held, b.early = nil, early
	l.publish(b)
}

// publish lets go of a batch.
func (l *Loop) publish(b *heldBatch) {
	now := time.Now()
	if b.settled {
		l.calm.fired(b.early)
	}
	next := b.delta.To
	initial, waited := next.Generation == 0, time.Duration(0)
	if initial {
		next.Generation = 1 // an empty mesh is a state too, and proxies wait for one
	}
	if !b.first.IsZero() {
		waited = now.Sub(b.first)
	}
	l.o.Batched(b.count, waited)
	l.o.Problems.Publish()
	if initial || !b.delta.IsEmpty() {
		if !b.storm { // else endpoints of others would wait for it
			l.pace.published(next.Generation, now)
		}
		l.o.Publish(next, b.delta)
	}
	if l.o.Applied != nil {
		l.o.Applied(b.applied)
	}
}
