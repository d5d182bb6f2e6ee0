package status

import (
	"maps"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Board holds what is to be said of each object: its latest value only, so that it grows with the
// objects and not with what happens to them. It is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	objects map[source.Key]*object
	// touched are those that there is something new about since the last batch was compiled.
	touched map[source.Key]bool
	// complete is closed with the first state: before that, what is missing may only not have come
	// yet.
	complete chan struct{}
	started  bool
	// listener is told which objects there is something new about; nil while nobody writes. It must
	// not block.
	listener func(source.Key)
}

// object is what is known of one object.
type object struct {
	generation int64                   // that is compiled; 0 for an object that cannot even be read
	problems   map[source.Problem]bool // nil for most
}

// Opinion is what is to be said of an object.
type Opinion struct {
	// Generation is the metadata.generation that was compiled; 0 if the object cannot even be read.
	Generation int64
	Problems   []source.Problem // errors first
}

// NewBoard is an empty Board.
func NewBoard() *Board {
	return &Board{objects: map[source.Key]*object{}, touched: map[source.Key]bool{}, complete: make(chan struct{})}
}

// Applied takes the changes of a batch that was compiled, after Problems was told what is wrong
// with them. Only then is anything said of them, so that a generation and its problems are always
// of one batch. It may be empty.
func (b *Board) Applied(changes []source.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range changes {
		if kinds.Of(c.Key.Kind).Status != kinds.Conditions {
			continue
		}
		if c.Object == nil {
			if o := b.objects[c.Key]; o != nil {
				o.generation = 0
				b.forget(c.Key)
			}
		} else {
			b.object(c.Key).generation = c.Object.GetGeneration()
		}
		b.touched[c.Key] = true
	}
	for k := range b.touched {
		if b.listener != nil {
			b.listener(k)
		}
	}
	clear(b.touched)
	if !b.started {
		b.started = true
		close(b.complete)
	}
}

// Problems takes what appeared and what was mended. It is said with the next batch.
func (b *Board) Problems(appeared, mended []source.Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range appeared {
		if kinds.Of(p.Object.Kind).Status == kinds.Conditions {
			o := b.object(p.Object)
			if o.problems == nil {
				o.problems = map[source.Problem]bool{}
			}
			o.problems[p] = true
			b.touched[p.Object] = true
		}
	}
	for _, p := range mended {
		if o := b.objects[p.Object]; o != nil {
			delete(o.problems, p)
			b.touched[p.Object] = true
		}
	}
	for _, p := range mended {
		b.forget(p.Object)
	}
}

// Of is what is to be said of an object; ok is false if nothing is known of it.
func (b *Board) Of(k source.Key) (opinion Opinion, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.objects[k]
	if o == nil {
		return Opinion{}, false
	}
	return Opinion{
		Generation: o.generation,
		Problems:   slices.SortedFunc(maps.Keys(o.problems), source.Problem.Compare),
	}, true
}

// listen sets who is told of news, and gives all objects that there are.
func (b *Board) listen(listener func(source.Key)) []source.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listener = listener
	return slices.SortedFunc(maps.Keys(b.objects), source.Key.Compare)
}

func (b *Board) object(k source.Key) *object {
	o := b.objects[k]
	if o == nil {
		o = &object{}
		b.objects[k] = o
	}
	return o
}

// forget drops an object that does not exist and that nothing is wrong with.
func (b *Board) forget(k source.Key) {
	if o := b.objects[k]; o != nil && o.generation == 0 && len(o.problems) == 0 {
		delete(b.objects, k)
	}
}
