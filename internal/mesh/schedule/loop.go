package schedule

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/mesh/validate"
	"github.com/lateen-mesh/lateen/internal/source"
)

// inboxSize bounds the events that wait for the loop; a source that delivers into a full inbox
// waits.
const inboxSize = 64

// LoopOptions are what a Loop needs.
type LoopOptions struct {
	Converter *convert.Converter
	Mesh      model.MeshConfig // until a ConfigMap says otherwise
	Debounce  Debounce
	// Writer applies the batches; nil makes one.
	Writer *state.Writer
	// Publish gets each generation, in order, in the loop's goroutine.
	Publish func(*state.Snapshot, *state.Delta)
	// Batched is told of each batch before it is published.
	Batched func(BatchStats)
	// Arrived is told of each change as it comes.
	Arrived func(source.Change)
	// Applied gets the changes of each batch to objects whose status is written, after Publish and
	// after the checks. It gets none if the batch has none, or if only reports of a source have
	// changed the problems. It may be nil.
	Applied  func([]source.Change)
	Problems *validate.ProblemStore
	Logger   *slog.Logger
	// Busy returns how much of the CPUs of this machine that it may use the process has used, as
	// time with all of them. Nil stands for one that is idle.
	Busy func() time.Duration
	// Checks says how the mesh is run that is checked.
	Checks validate.Options
}

// BatchStats describe a batch.
type BatchStats struct {
	Changes int           // to objects of the mesh
	Waited  time.Duration // from the arrival of its oldest change until it was applied
	Took    time.Duration // to convert, apply and check it
	// Snapshot is what it leads to. It may be the one before, or differ from it in nothing that is
	// for proxies.
	Snapshot *state.Snapshot
}

// Loop is the goroutine that writes the mesh. It takes events into the queues, and converts,
// applies, checks and publishes what leaves them. Events of an object are taken in order; the
// latest one in a batch counts.
type Loop struct {
	o         LoopOptions
	inbox     chan message
	delivered deliveryReports

	queues  queues
	convert reconverter
	writer  *state.Writer
	grace   endpointGrace
	checker *validate.Checker
	initial *initialState // nil once it is applied

	// flushing wait for everything to be published.
	flushing []chan<- uint64
	// examining wait for what is applied to be published.
	examining []func(*state.Writer)
	// published is what was published last, nil before the first.
	published *state.Snapshot
	// conflicted says that problems were reported of no batch.
	conflicted chan struct{}
}

// message is an event, or a question for the generation that everything before it is in.
type message struct {
	event source.Event
	flush chan<- uint64
	// examine is called with the writer when all that is applied has been published.
	examine func(*state.Writer)
}

// NewLoop makes a loop over an empty mesh.
func NewLoop(o LoopOptions) *Loop {
	o.Checks.Mesh = o.Converter.MeshKey()
	if o.Busy == nil {
		o.Busy = func() time.Duration { return 0 }
	}
	l := &Loop{
		o: o, inbox: make(chan message, inboxSize), conflicted: make(chan struct{}, 1),
		delivered: newDeliveryReports(), queues: newQueues(o.Debounce),
		writer: cmp.Or(
			o.Writer,
			state.NewWriter(),
		), checker: validate.NewChecker(o.Problems, o.Checks), initial: newInitialState(),
	}
	l.convert = newReconverter(o.Converter, o.Mesh, l.converted)
	l.grace = newEndpointGrace(o.Debounce.Moves, l.selectorOf)
	return l
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

// Flush waits until everything that was delivered before it has been published, and returns the
// generation that it is in. It does not shorten the debounce.
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

// Examine calls f when all that is applied has been published, and returns when f does. f runs in
// the goroutine of the loop, which waits for it. It may fork the writer, and must not change it.
func (l *Loop) Examine(ctx context.Context, f func(*state.Writer)) error {
	done := make(chan struct{})
	m := message{examine: func(w *state.Writer) {
		defer close(done)
		if ctx.Err() == nil {
			f(w)
		}
	}}
	select {
	case l.inbox <- m:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Progress reports that a generation has reached more of the proxies that it concerns, or nearly
// all: the next endpoints that change wait for that, within bounds, and so does configuration that
// changes all the time. It does not block and may be called by anyone.
func (l *Loop) Progress(d Delivery) { l.delivered.report(d) }

// Conflicted reports that a proxy which connected sees problems that nobody saw: Applied is called,
// now or with the batch that waits. It does not block and may be called by anyone.
func (l *Loop) Conflicted() {
	select {
	case l.conflicted <- struct{}{}:
	default: // one call is due, and takes these problems too
	}
}

// Run works until ctx ends. Nothing is published before a source has said that it is synced.
func (l *Loop) Run(ctx context.Context) error {
	timer := time.NewTimer(idlePeriod)
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
			if m.examine != nil {
				l.examining = append(l.examining, m.examine)
			}
		case <-l.delivered.notify:
			l.progressed(time.Now())
		case <-l.conflicted:
			l.applyNothing()
		case <-timer.C:
		}
		d := l.queues.next(time.Now())
		if d.drainFirst && len(l.inbox) > 0 {
			continue
		}
		for d.leave != nothing {
			l.step(d.leave)
			d = l.queues.next(time.Now())
		}
		l.answer()
		l.showWriter()
		timer.Reset(time.Until(d.recheckAt))
	}
}

// progressed looks at what was reported of generations on their way.
func (l *Loop) progressed(now time.Time) {
	q, nearlyAll := &l.queues, l.delivered.nearlyAll.Load()
	q.pace.progressed(l.delivered.reachedMore.Swap(0), nearlyAll, now)
	q.steady.proxyBusy(time.Duration(l.delivered.proxyBusy.Swap(0)), now)
	if q.pace.delivered {
		q.steady.delivered(now, l.o.Busy())
	}
}

// answer answers Flush once nothing waits and no endpoint is in its grace period.
func (l *Loop) answer() {
	if !l.queues.synced || !l.queues.empty() || !l.queues.graceEnds.IsZero() {
		return
	}
	for _, done := range l.flushing {
		done <- l.writer.Snapshot().Generation
	}
	l.flushing = nil
}

// showWriter answers Examine, unless a batch is applied and held.
func (l *Loop) showWriter() {
	if l.published == nil || l.published != l.writer.Snapshot() {
		return
	}
	for _, examine := range l.examining {
		examine(l.writer)
	}
	l.examining = nil
}

func (l *Loop) take(e source.Event) {
	now := time.Now()
	for _, c := range e.Changes {
		l.queues.add(c, now)
		if !l.queues.synced {
			l.readAhead()
		}
		l.o.Arrived(c)
	}
	l.move(e.Moved)
	for _, r := range e.Reports {
		l.o.Problems.Report(r)
	}
	if len(e.Reports) > 0 {
		l.applyNothing()
	}
	if e.Synced && !l.queues.synced {
		l.queues.sync()
	}
}

// applyNothing passes on problems that were reported of no batch. If one waits, it takes them with
// it.
func (l *Loop) applyNothing() {
	if l.o.Applied != nil && l.queues.empty() && l.writer.Snapshot().Generation > 0 {
		l.o.Applied(nil)
	}
}

// move notes where objects stand now; what is said of them follows at once.
func (l *Loop) move(places []source.Place) {
	if len(places) == 0 {
		return
	}
	for _, p := range places {
		l.queues.move(p)
		l.convert.move(p)
	}
	l.o.Problems.Move(places)
}

// converted notes what a change means beside its updates.
func (l *Loop) converted(c source.Change, r convert.Result) {
	l.o.Problems.NoteOrigin(c)
	l.grace.converted(c.Key, r)
	l.o.Problems.SetConversion(c.Key, r.Problems)
}

// selectorOf is what a Service selects, be that applied or about to be; nothing if there is no such
// Service.
func (l *Loop) selectorOf(snap *state.Snapshot, service source.Key) model.Labels {
	if c, waits := l.queues.pending.changes[service]; waits {
		if given := l.convert.preview(c).Objects; len(given) > 0 {
			return given[0].(*model.Service).Selector
		}
		return model.Labels{}
	}
	host := model.Resolve(service.Name, service.Namespace, snap.Mesh.Domain)
	if s := kubernetesService(snap, host, service.Namespace); s != nil {
		return s.Selector
	}
	return model.Labels{}
}

// step converts, applies and checks what leaves the queues, and publishes it unless the queues hold
// it.
func (l *Loop) step(leave selection) {
	now := time.Now()
	b, changes := l.queues.take(leave, now)
	updates, told := l.withInitial(l.convert.convert(changes), l.statusChangesOf(changes))
	next, delta := l.apply(updates)
	l.checker.Check(next, delta)
	b.statusChanges = append(b.statusChanges, told...)
	b.updates += len(updates)
	b.delta = b.delta.Compose(delta)
	r := result{newErrors: l.o.Problems.HasNewErrors()}
	if b.early { // no other batch is held
		r.awaited = withoutEndpoints(next, delta)
	}
	b.took += time.Since(now)
	if l.queues.applied(b, r, now) {
		l.publish(b)
	}
}

// apply makes the next generation, with the endpoints in it that are in their grace.
func (l *Loop) apply(updates []state.Update) (*state.Snapshot, *state.Delta) {
	snap, d := l.writer.Apply(updates)
	kept := l.grace.step(snap, d, time.Now())
	l.queues.graceEnds = l.grace.ends
	if len(kept) == 0 {
		return snap, d
	}
	next, then := l.writer.Apply(kept)
	return next, d.Compose(then)
}

// withoutEndpoints returns the new Services of a step that have no endpoints yet: the controller
// that writes their EndpointSlice sees the Service first. An alias has its name for an endpoint.
func withoutEndpoints(snap *state.Snapshot, d *state.Delta) (services []source.Key) {
	for _, p := range d.Services {
		if p.Old == nil && p.New.Kind == kinds.Service && snap.Endpoints(p.New).IsEmpty() {
			services = append(services, p.New.Key())
		}
	}
	return services
}

// publish publishes a batch.
func (l *Loop) publish(b *batch) {
	now := time.Now()
	next := b.delta.To
	initial, waited := next.Generation == 0, time.Duration(0)
	if initial {
		next.Generation = 1 // an empty mesh is a state too, and proxies wait for one
	}
	if !b.oldest.IsZero() {
		waited = now.Sub(b.oldest)
	}
	l.o.Batched(BatchStats{Changes: b.updates, Waited: waited, Took: b.took, Snapshot: next})
	l.o.Problems.Publish()
	l.published = next
	if initial || !b.delta.IsEmpty() {
		l.queues.published(b, next.Generation, now)
		if b.changes {
			l.queues.steady.published(now, l.o.Busy())
		}
		l.o.Publish(next, b.delta)
	}
	if l.o.Applied != nil {
		l.o.Applied(b.statusChanges)
	}
}
