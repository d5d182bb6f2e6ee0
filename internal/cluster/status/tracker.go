package status

import (
	"maps"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Tracker holds the latest Observation of each object. It grows with the number of objects, not
// with the number of events. It is safe for concurrent use.
type Tracker struct {
	mu      sync.Mutex
	objects map[source.Key]*object
	batches
}

// object is what the Tracker knows of one object.
type object struct {
	generation int64                   // that is compiled; 0 for an object that cannot even be read
	problems   map[source.Problem]bool // nil for most
	note       string                  // Observation.Note
}

// Observation is the generation of an object that was compiled, and what is wrong with it.
type Observation struct {
	// Generation is the metadata.generation that was compiled; 0 if the object cannot be read.
	Generation int64
	Problems   []source.Problem // errors first
	// Note says of an object that is in force what it does; empty for most, and while it is not
	// known.
	Note string
}

// NewTracker returns an empty Tracker.
func NewTracker() *Tracker {
	return &Tracker{objects: map[source.Key]*object{}, batches: newBatches()}
}

// Applied takes the changes of a compiled batch, which may be empty. Problems must have been called
// with the batch's problems before. The listener is called only here, so that a generation and its
// problems are always of one batch.
func (t *Tracker) Applied(changes []source.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range changes {
		if kinds.Of(c.Key.Kind).Status != kinds.Conditions {
			continue
		}
		if c.Object == nil {
			if o := t.objects[c.Key]; o != nil {
				o.generation = 0
				t.forget(c.Key)
			}
		} else {
			t.object(c.Key).generation = c.Object.GetGeneration()
		}
		t.changed[c.Key] = true
	}
	t.ended()
}

// Problems takes the problems that appeared and those that were mended. They are passed on with the
// next batch.
func (t *Tracker) Problems(appeared, mended []source.Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range appeared {
		if kinds.WithStatusOf(p.Object.Kind).Status == kinds.Conditions {
			o := t.object(p.Object)
			if o.problems == nil {
				o.problems = map[source.Problem]bool{}
			}
			o.problems[p] = true
			t.changed[p.Object] = true
		}
	}
	for _, p := range mended {
		if o := t.objects[p.Object]; o != nil {
			delete(o.problems, p)
			t.changed[p.Object] = true
		}
	}
	for _, p := range mended {
		t.forget(p.Object)
	}
}

// Noted takes the notes of all objects that have one, and changes some of those that differ, at
// most so many. They are passed on with the next batch. It returns how many it has changed.
func (t *Tracker) Noted(notes map[source.Key]string, most int) (changed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, note := range notes {
		if changed == most {
			break
		}
		if o := t.objects[k]; o != nil && o.generation != 0 && o.note != note {
			o.note, t.changed[k] = note, true
			changed++
		}
	}
	return changed
}

// Get returns the Observation of an object; ok is false if nothing is known of it.
func (t *Tracker) Get(k source.Key) (observation Observation, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[k]
	if o == nil {
		return Observation{}, false
	}
	return Observation{
		Generation: o.generation,
		Note:       o.note,
		Problems:   slices.SortedFunc(maps.Keys(o.problems), source.Problem.Compare),
	}, true
}

// listen sets the listener, and returns all objects.
func (t *Tracker) listen(listener func(source.Key)) []source.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listener = listener
	return slices.SortedFunc(maps.Keys(t.objects), source.Key.Compare)
}

func (t *Tracker) object(k source.Key) *object {
	o := t.objects[k]
	if o == nil {
		o = &object{}
		t.objects[k] = o
	}
	return o
}

// forget drops an object that does not exist and has no problem.
func (t *Tracker) forget(k source.Key) {
	if o := t.objects[k]; o != nil && o.generation == 0 && len(o.problems) == 0 {
		delete(t.objects, k)
	}
}
