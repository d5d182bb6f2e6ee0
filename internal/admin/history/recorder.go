package history

import (
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

const (
	// inbox is how many reports may wait for the Recorder.
	inbox = 256
	// stale is how long a change that comes to nothing is kept.
	stale = time.Minute
)

// Published is a generation as the pipeline reports it.
type Published struct {
	Generation uint64
	At         time.Time
	// Changed are the objects that differ, States those of the classes that do, and Moved the
	// proxies that got another class.
	Changed          []source.Key
	Appeared, Mended []source.Problem
	States           []resource.ClassState
	Moved            []Move
	// LastClass is the newest class that there is.
	LastClass resource.ClassID
	// Took is how long it took to convert, check and compile.
	Took time.Duration
}

// Move is a proxy, as "name.namespace", that got another class. Was is the state that its class
// had, or the one that it has now if the class is in States.
type Move struct {
	Proxy      string
	From, To   resource.ClassID
	Was, State resource.State
}

// Return is a class that is made anew when the first of its proxies comes back: in place of From,
// which ended with the state Was.
type Return struct {
	At         time.Time
	From, To   resource.ClassID
	Was, State resource.State
}

// Settled is what became of a generation.
type Settled struct {
	Generation uint64
	page.Delivery
}

// Recorder puts together what stages report, each in its own goroutine, and has the Store remember
// it.
type Recorder struct {
	o       Options
	store   *Store
	reports chan any // caused, Settled, Return, or a func to call in its turn

	// arrived are the changes that no generation has come of yet, and lost those that are to be
	// handed over without one. The loop's goroutine has them.
	arrived, lost      map[source.Key]arrival
	first              []cause // what is there at the start, until it is enough to be handed over
	cleared            time.Time
	started, told, gap bool // told is set when the start is reported
	most               int  // changes in arrived, since it is this map
	// objects are as they were last, and beside those that changed since the last generation and
	// came to none. The Recorder's goroutine has them.
	objects    *objects
	beside     []replaced
	moreBeside int
}

// caused is a generation with the changes that it is of.
type caused struct {
	Published
	by      []cause
	start   bool
	gap     bool   // the one before was dropped
	dropped uint64 // how many were, since the start
}

// arrival is what is kept of a change until its generation comes.
type arrival struct {
	object  metav1.Object // nil for one that is gone, and of a kind whose fields are not told
	partial bool
	gone    bool
	origin  string
	at      time.Time
}

// created is when the object was made, as it says itself; zero if it does not.
func (a arrival) created() time.Time {
	if a.object == nil {
		return time.Time{}
	}
	return a.object.GetCreationTimestamp().Time
}

// cause is an object that changed. Without an arrival another object changed what it means.
type cause struct {
	source.Key
	arrival
	arrived bool
}

// Options are those of a Recorder.
type Options struct {
	Store *Store
	// Dropped is called for each report for which there is no place.
	Dropped func()
	// Disk keeps what the Store remembers; nil for none. Failed is called with the errors of it.
	Disk   *Disk
	Failed func(error)
}

// NewRecorder returns a Recorder.
func NewRecorder(o Options) *Recorder {
	store := o.Store
	return &Recorder{
		o: o, store: store, reports: make(chan any, inbox),
		arrived: map[source.Key]arrival{}, lost: map[source.Key]arrival{}, objects: newObjects(store.forObjects()),
	}
}

// Arrived reports a change as it comes. The loop's goroutine calls it.
func (r *Recorder) Arrived(c source.Change) {
	if r.store.isOff() {
		return
	}
	a := arrival{gone: c.Object == nil, partial: c.Partial, origin: c.Origin, at: c.ObservedAt}
	if isTold(c.Key.Kind) {
		a.object = c.Object
	}
	if r.started {
		r.sweep(a.at)
		r.arrived[c.Key] = a
		r.most = max(r.most, len(r.arrived))
	} else if isTold(c.Key.Kind) { // what is there at the start is known, and not told
		if r.first = append(r.first, cause{c.Key, a, true}); len(r.first) == atOnce {
			r.learnFirst()
		}
	}
}

// atOnce is how many objects of the start are handed over at once.
const atOnce = 256

// learnFirst hands over what was there at the start. Where that is dropped the objects are not
// known.
func (r *Recorder) learnFirst() {
	list := r.first
	r.first = nil
	if len(list) == 0 {
		return
	}
	r.report(func() {
		for _, c := range list {
			r.objects.learn(c)
		}
	})
}

// Publish reports a generation. The loop's goroutine calls it, and may use p.States again.
func (r *Recorder) Publish(p Published) {
	if r.store.isOff() {
		return
	}
	of := caused{Published: p, start: !r.told, gap: r.gap, dropped: r.store.dropped.Load()}
	if !r.started {
		r.started = true
		r.learnFirst()
	}
	of.States = slices.Clone(p.States)
	for _, k := range p.Changed {
		a, arrived := r.arrived[k]
		delete(r.arrived, k)
		of.by = append(of.by, cause{k, a, arrived})
	}
	r.sweep(p.At)
	r.shrink()
	if r.report(of) {
		r.told, r.gap = true, false
		return
	}
	r.gap = true
	r.store.dropped.Add(1)
	for _, by := range of.by {
		if by.arrived {
			r.lost[by.Key] = by.arrival
		}
	}
}

// sweep hands over changes that no generation has come of for long.
func (r *Recorder) sweep(now time.Time) {
	if now.Sub(r.cleared) > stale {
		r.cleared = now
		maps.DeleteFunc(r.arrived, func(k source.Key, a arrival) bool {
			old := now.Sub(a.at) > stale
			if old && isTold(k.Kind) {
				r.lost[k] = a
			}
			return old
		})
	}
	if len(r.lost) == 0 {
		return
	}
	list := maps.Clone(r.lost)
	if r.report(func() { r.noteBeside(list) }) {
		clear(r.lost)
	}
}

// noteBeside notes changes that came to no generation. The Recorder's goroutine calls it.
func (r *Recorder) noteBeside(list map[source.Key]arrival) {
	for k, a := range list {
		_, before := r.objects.change(cause{k, a, true})
		before.At = a.at
		if len(r.beside) == maxCauses {
			r.moreBeside++
			continue
		}
		r.beside = append(r.beside, before)
	}
}

// shrink gives the memory of many changes back when all of them have gone: a map does not.
func (r *Recorder) shrink() {
	const many = 256
	if r.most > many && len(r.arrived) == 0 {
		r.arrived, r.most = map[source.Key]arrival{}, 0
	}
}

// Settle reports what became of a generation. Anyone may call it.
func (r *Recorder) Settle(s Settled) {
	if !r.store.isOff() {
		r.report(s)
	}
}

// Return reports a class in place of one that ended. Anyone may call it.
func (r *Recorder) Return(by Return) {
	if !r.store.isOff() {
		r.report(by)
	}
}

// Flush waits until all that was reported before is remembered. It returns the error of ctx if that
// ends first.
func (r *Recorder) Flush(ctx context.Context) error { return r.do(ctx, func() {}) }

// do calls f in the Recorder's goroutine, after all that was reported before. After an error f may
// still be called.
func (r *Recorder) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case r.reports <- func() { f(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Recorder) report(what any) (taken bool) {
	select {
	case r.reports <- what:
		return true
	default:
		r.o.Dropped()
		return false
	}
}

// Run works until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	if r.o.Disk != nil {
		if err := r.o.Disk.Load(r.store); err != nil {
			r.o.Failed(err)
		}
		defer func() { _ = r.o.Disk.Close() }() // all is written
	}
	for {
		select {
		case <-ctx.Done():
			return
		case what := <-r.reports:
			switch what := what.(type) {
			case caused:
				e := r.entryOf(&what)
				r.store.add(&e)
				r.store.known.Store(what.dropped)
				r.write(record{Entry: &e})
			case Return:
				r.store.addReturn(what)
			case Settled:
				r.store.Settle(what.Generation, what.Delivery)
				r.write(record{Settled: &what})
			case func():
				what()
			}
		}
	}
}

func (r *Recorder) write(what record) {
	if r.o.Disk == nil {
		return
	}
	if err := r.o.Disk.write(what); err != nil {
		r.o.Failed(err)
	}
}

// Of a generation no more is kept than people read.
const (
	maxCauses   = 1000
	maxProblems = 20
	// maxTold is how many objects are told with their fields.
	maxTold = 100
	// maxMoved is how many proxies that got another class are named.
	maxMoved = 2000
)

func (r *Recorder) entryOf(c *caused) entry {
	e := entry{Generation: page.Generation{
		Generation: c.Generation, At: c.At, Start: c.start, Seconds: c.Took.Seconds(),
	}, Gap: c.gap, LastClass: uint64(c.LastClass), Objects: r.beside, MoreObjects: r.moreBeside}
	r.beside, r.moreBeside = nil, 0
	slices.SortStableFunc(c.by, func(a, b cause) int { return rank(a) - rank(b) })
	for _, by := range c.by {
		if c.start {
			r.objects.learn(by)
			continue
		}
		r.addCause(&e, by)
	}
	e.Appeared, e.Mended = textsOf(c.Appeared), textsOf(c.Mended)
	e.MoreProblems = len(c.Appeared) + len(c.Mended) - len(e.Appeared) - len(e.Mended)
	for _, m := range c.Moved[:min(len(c.Moved), maxMoved)] {
		e.Moved = append(e.Moved, page.MovedProxy{Proxy: m.Proxy, From: uint64(m.From), To: uint64(m.To)})
	}
	e.MoreMoved = len(c.Moved) - len(e.Moved)
	if !c.start { // what was before is nobody's
		e.compare(c.States, c.Moved)
	}
	return e
}

// rank puts what people write first.
func rank(c cause) int {
	switch {
	case isTold(c.Kind) && c.arrived:
		return 0
	case isTold(c.Kind):
		return 1
	}
	return 2
}

func (r *Recorder) addCause(e *entry, by cause) {
	told, before := r.objects.change(by) // of all: the next change is told by this one
	isObject := by.arrived && isTold(by.Kind)
	if len(e.Causes) == maxCauses {
		e.MoreCauses++
		if isObject {
			e.MoreObjects++
		}
		return
	}
	if len(e.Causes) >= maxTold {
		told.MoreFields += len(told.Fields)
		told.Fields = nil
	}
	if isObject {
		e.Objects = append(e.Objects, before)
	}
	e.Causes = append(e.Causes, told)
}

func textsOf(problems []source.Problem) (texts []string) {
	for _, p := range problems[:min(len(problems), maxProblems)] {
		texts = append(texts, p.String())
	}
	return texts
}
