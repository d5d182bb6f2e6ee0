package world

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/ingest"
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
	// Endpoints tells whether changes of endpoints alone wait too (PILOT_ENABLE_EDS_DEBOUNCE).
	Endpoints bool
}

// LoopOptions are what a Loop needs.
type LoopOptions struct {
	Converter *ingest.Converter
	Mesh      model.MeshConfig // until a ConfigMap says otherwise
	Debounce  Debounce
	// Publish gets each generation, in order, in the loop's goroutine.
	Publish func(*World, *Delta)
	// Batched is told of each batch: how many changes, and how long the first of them waited.
	Batched func(changes int, waited time.Duration)
	// Arrived is told of each change as it comes.
	Arrived func(source.Change)
	Ledger  *Ledger
	Logger  *slog.Logger
}

// Loop is the one writer of the world as a goroutine: it takes events, waits until they have settled, converts and
// applies them, and publishes the generation. Events are taken in order; within a batch the latest change of a key counts.
type Loop struct {
	o      LoopOptions
	inbox  chan message
	writer *Writer
	mesh   model.MeshConfig
	synced bool

	pending     map[source.Key]source.Change
	order       []source.Key
	first, last time.Time

	// flushing wait for the pending batch to be published.
	flushing []chan<- uint64

	// kept are changes whose meaning depends on the mesh configuration, to be converted again when it changes.
	kept map[source.Key]source.Change

	// lost are VirtualServices with a destination that does not exist, by namespace: what they are told to try instead
	// depends on the services of their namespace.
	lost map[string]map[source.Key]bool
}

// message is an event, or a question for the generation that everything before it is in.
type message struct {
	event source.Event
	flush chan<- uint64
}

// NewLoop makes a loop over an empty world.
func NewLoop(o LoopOptions) *Loop {
	return &Loop{
		o: o, inbox: make(chan message, inboxSize), writer: NewWriter(), mesh: o.Mesh,
		pending: map[source.Key]source.Change{}, kept: map[source.Key]source.Change{}, lost: map[string]map[source.Key]bool{},
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

// Run works until ctx ends. Nothing is published before a source has said that it is synced.
func (l *Loop) Run(ctx context.Context) error {
	timer := time.NewTimer(idle)
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
		case <-timer.C:
		}
		wait, due := l.wait(time.Now())
		if due {
			l.fire()
			wait = idle
		}
		if len(l.pending) == 0 && l.synced {
			l.answer()
		}
		timer.Reset(wait)
	}
}

// idle is how long the loop sleeps when nothing is pending; any message wakes it.
const idle = time.Hour

func (l *Loop) answer() {
	for _, done := range l.flushing {
		done <- l.writer.World().Generation
	}
	l.flushing = nil
}

func (l *Loop) take(e source.Event) {
	now := time.Now()
	for _, c := range e.Changes {
		if len(l.pending) == 0 {
			l.first = now
		}
		if earlier, known := l.pending[c.Key]; known {
			c.ObservedAt = earlier.ObservedAt // the user waits since the first of them
		} else {
			l.order = append(l.order, c.Key)
		}
		l.pending[c.Key] = c
		l.last = now
		l.o.Arrived(c)
	}
	l.move(e.Moved)
	for _, r := range e.Reports {
		l.o.Ledger.Report(r)
	}
	if e.Synced && !l.synced {
		l.synced = true
		l.first = time.Time{} // the initial state does not wait
	}
}

// move notes where objects stand now; what is said of them follows at once.
func (l *Loop) move(places []source.Place) {
	if len(places) == 0 {
		return
	}
	for _, p := range places {
		for _, changes := range []map[source.Key]source.Change{l.pending, l.kept} {
			if c, ok := changes[p.Key]; ok && c.Object != nil {
				c.Origin = p.Origin
				changes[p.Key] = c
			}
		}
	}
	l.o.Ledger.moved(places)
}

// wait is how long the pending batch still waits; due when it does not.
func (l *Loop) wait(now time.Time) (time.Duration, bool) {
	if !l.synced {
		return idle, false
	}
	if l.writer.World().Generation == 0 && l.first.IsZero() {
		return 0, true
	}
	if len(l.pending) == 0 {
		return idle, false
	}
	if !l.o.Debounce.Endpoints && l.endpointsOnly() {
		return 0, true
	}
	until := l.last.Add(l.o.Debounce.After)
	if latest := l.first.Add(l.o.Debounce.Max); latest.Before(until) {
		until = latest
	}
	return until.Sub(now), !until.After(now)
}

func (l *Loop) endpointsOnly() bool {
	for _, k := range l.order {
		if k.Kind != source.EndpointSlice && k.Kind != source.Pod {
			return false
		}
	}
	return true
}

// fire converts and applies what is pending.
func (l *Loop) fire() {
	waited := time.Duration(0)
	if !l.first.IsZero() {
		waited = time.Since(l.first)
	}
	updates := l.convert()
	l.o.Batched(len(updates), waited)
	next, delta := l.writer.Apply(updates)
	l.check(next, delta)
	l.o.Ledger.publish()
	initial := next.Generation == 0
	if initial {
		next.Generation = 1 // an empty mesh is a state too, and proxies wait for one
		delta.To = next
	}
	if initial || !delta.IsEmpty() {
		l.o.Publish(next, delta)
	}
}

func (l *Loop) convert() []Update {
	meshBefore := l.mesh
	var updates []Update
	for _, k := range l.order {
		updates = append(updates, l.convertOne(l.pending[k]))
	}
	if model.Fingerprint(&meshBefore) != model.Fingerprint(&l.mesh) {
		observed := l.pending[meshKey(l.o.Mesh)].ObservedAt
		for _, k := range slices.SortedFunc(maps.Keys(l.kept), source.Key.Compare) {
			if _, fresh := l.pending[k]; !fresh {
				u := l.convertOne(l.kept[k])
				u.Observed = observed // it changes because of the mesh configuration
				updates = append(updates, u)
			}
		}
		for i, k := range l.order { // those converted before the mesh configuration was
			if dependsOnMesh(k.Kind) {
				updates[i] = l.convertOne(l.pending[k])
			}
		}
	}
	clear(l.pending)
	l.order = l.order[:0]
	return updates
}

func dependsOnMesh(k source.Kind) bool {
	switch k {
	case source.Service, source.ServiceEntry, source.VirtualService, source.DestinationRule, source.Sidecar, source.Gateway:
		return true
	}
	return false
}

func (l *Loop) convertOne(c source.Change) Update {
	u := Update{Key: c.Key, Observed: c.ObservedAt}
	delete(l.kept, c.Key)
	l.o.Ledger.origin(c)
	if c.Object == nil {
		l.o.Ledger.object(c.Key, nil)
		if c.Key.Kind == source.ConfigMap && c.Key == meshKey(l.o.Mesh) {
			l.mesh = l.o.Mesh
		}
		return u
	}
	result := l.o.Converter.Convert(c, l.mesh)
	l.o.Ledger.object(c.Key, result.Problems)
	u.Objects = result.Objects
	for _, o := range u.Objects {
		if mesh, ok := o.(*model.MeshConfig); ok {
			l.mesh = *mesh
		}
	}
	if dependsOnMesh(c.Key.Kind) {
		l.kept[c.Key] = c
	}
	return u
}

func meshKey(m model.MeshConfig) source.Key {
	return source.Key{Kind: source.ConfigMap, Namespace: m.RootNamespace, Name: "istio"}
}
