package view

import (
	"slices"
	"strings"
	"sync"
)

// State is everything that one class of proxies should have at one generation. It never changes. States that follow
// each other share what stayed equal.
type State struct {
	Generation uint64
	Sets       [NumTypes]*Set // never nil
}

// NewState returns a state with empty sets.
func NewState(generation uint64) *State {
	s := &State{Generation: generation}
	for t := range s.Sets {
		s.Sets[t] = emptySet
	}
	return s
}

// Size is the sum of all bodies' lengths in bytes.
func (s *State) Size() int {
	total := 0
	for _, set := range s.Sets {
		total += set.Size()
	}
	return total
}

// Change is the difference of two sets, shared by all sessions that make the same step.
type Change struct {
	Type     Type
	From, To *Set
	Upserts  []*Resource // by name
	Removed  []string    // sorted
	// Own tells that an upsert depends on the proxy's own addresses, so that its bytes cannot be shared.
	Own bool

	diff  sync.Once
	once  sync.Once
	frame []byte
}

// Frame returns what encode makes of the upserts, made once and shared. It must not be called with different encoders.
func (c *Change) Frame(encode func(*Change) []byte) []byte {
	c.once.Do(func() { c.frame = encode(c) })
	return c.frame
}

// Differ computes Changes and remembers the latest ones, so that the sessions of a class, which mostly make the
// same step, share one. It holds at most limit changes and forgets the oldest. It is safe for concurrent use.
type Differ struct {
	limit int
	store *Store // of what Keeping makes
	mu    sync.Mutex
	known map[step]*Change
	order []step
}

type step struct {
	typ      Type
	from, to Version
}

// NewDiffer returns a Differ that remembers up to limit changes.
func NewDiffer(limit int) *Differ {
	return &Differ{limit: limit, store: NewStore(), known: make(map[step]*Change, limit)}
}

// Diff is the change from one set to another.
func (d *Differ) Diff(t Type, from, to *Set) *Change {
	c := d.change(t, from, to)
	c.diff.Do(c.compute) // not under the lock: whoever makes another step does not wait for it
	return c
}

func (d *Differ) change(t Type, from, to *Set) *Change {
	key := step{typ: t, from: from.Root(), to: to.Root()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.known[key]; c != nil {
		return c
	}
	c := &Change{Type: t, From: from, To: to}
	if len(d.order) == d.limit {
		delete(d.known, d.order[0])
		d.order = d.order[1:]
	}
	d.known[key] = c
	d.order = append(d.order, key)
	return c
}

func (c *Change) compute() {
	Diff(c.From, c.To, func(old, new *Resource) {
		if new == nil {
			c.Removed = append(c.Removed, old.name)
			return
		}
		c.Upserts = append(c.Upserts, new)
		c.Own = c.Own || new.own
	})
	slices.SortFunc(c.Upserts, func(a, b *Resource) int { return strings.Compare(a.name, b.name) })
	slices.Sort(c.Removed)
}
