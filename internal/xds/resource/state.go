package resource

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// State is everything that one class of proxies should have at one generation. It never changes,
// and is cheap to copy; the zero State is none.
//
// Endpoints change most of all, in hundreds of classes at once. So they stand apart: classes that
// have the same ones share an EndpointPart, each keeps its other sets, and a change of endpoints
// makes nothing that is of one class alone.
type State struct {
	endpoints *EndpointPart
	others    *otherSets
}

// EndpointPart is a generation and its endpoints, which the States of many classes share. It never
// changes.
type EndpointPart struct {
	generation uint64
	set        *Set
}

// otherSets are what a State has but for endpoints. They never change.
type otherSets struct {
	sets   [NumTypes]*Set // nil at Endpoint
	tables *tables        // what makes Tables; a class's states have the same
}

// ClassID names a class as long as it lives.
type ClassID uint64

// ClassState is a class and its new state.
type ClassState struct {
	Class ClassID
	State State
}

// NewEndpointPart makes the endpoints of a generation.
func NewEndpointPart(generation uint64, endpoints *Set) *EndpointPart {
	return &EndpointPart{generation: generation, set: endpoints}
}

// Set are the endpoints.
func (p *EndpointPart) Set() *Set { return p.set }

// NewState returns a state with empty sets.
func NewState(generation uint64) State { return State{}.Emptied(NewStore(), generation) }

// Emptied returns the state of the same class with empty sets, for one that is compiled from
// nothing. Of the zero State it is the first state of a class, whose Tables will be made in the
// store.
func (s State) Emptied(store *Store, generation uint64) State {
	if s.IsNone() {
		return emptyState(generation, newTables(store))
	}
	return emptyState(generation, s.others.tables)
}

// Fork returns an equal state for another class: Tables of the one and of the other are made apart.
func (s State) Fork() State {
	others := *s.others
	others.tables = others.tables.clone()
	return State{endpoints: s.endpoints, others: &others}
}

func emptyState(generation uint64, whole *tables) State {
	r := &otherSets{tables: whole}
	for t := range r.sets {
		r.sets[t] = emptySet
	}
	r.sets[Endpoint] = nil
	return State{endpoints: &EndpointPart{generation: generation, set: emptySet}, others: r}
}

// IsNone tells that this is no state at all.
func (s State) IsNone() bool { return s.endpoints == nil }

// Generation is that at which it became so.
func (s State) Generation() uint64 { return s.endpoints.generation }

// Set is what there is of a type, never nil. Route has the heads of tables, whose virtual hosts are
// resources of their own; see Tables.
func (s State) Set(t Type) *Set {
	if t == Endpoint {
		return s.endpoints.set
	}
	return s.others.sets[t]
}

// Sets are those of all types.
func (s State) Sets() [NumTypes]*Set {
	sets := s.others.sets
	sets[Endpoint] = s.endpoints.set
	return sets
}

// Tables are the route tables with their virtual hosts in them, for clients that do not speak VHDS.
// They are put together when they are asked for.
func (s State) Tables() *Set { return s.others.tables.of(s.Set(Route), s.Set(VirtualHost)) }

// At is the same at a later generation.
func (s State) At(generation uint64) State {
	return s.WithEndpoints(&EndpointPart{generation: generation, set: s.endpoints.set})
}

// With is the same with another set of a type.
func (s State) With(t Type, set *Set) State {
	if t == Endpoint {
		return s.WithEndpoints(&EndpointPart{generation: s.endpoints.generation, set: set})
	}
	sets := s.Sets()
	sets[t] = set
	return s.WithSets(s.endpoints, sets)
}

// WithEndpoints is the same at another generation, with its endpoints.
func (s State) WithEndpoints(at *EndpointPart) State { return State{endpoints: at, others: s.others} }

// WithSets is a state of the same class with other sets. That of Endpoint does not count: at has
// the endpoints.
func (s State) WithSets(at *EndpointPart, sets [NumTypes]*Set) State {
	later := s.WithEndpoints(at)
	if sets[Endpoint] = nil; sets != s.others.sets {
		later.others = &otherSets{sets: sets, tables: s.others.tables}
	}
	return later
}

// Equal tells whether two states have the same sets.
func (s State) Equal(o State) bool {
	if !s.endpoints.set.Equal(o.endpoints.set) {
		return false
	}
	return s.others == o.others || slices.EqualFunc(s.others.sets[:], o.others.sets[:], func(a, b *Set) bool {
		return a == b || a.Equal(b)
	})
}

// Size is the sum of all bodies' lengths in bytes.
func (s State) Size() int {
	total := 0
	for _, set := range s.Sets() {
		total += set.Size()
	}
	return total
}

// Change is the difference of two sets, shared by all sessions that make the same step.
type Change struct {
	Type     Type
	From, To *Set        // nil for members of collections
	Upserts  []*Resource // by name, but for members from nothing
	Removed  []string    // sorted
	// PerProxy tells that an upsert depends on the proxy's own addresses, so that its bytes cannot
	// be shared.
	PerProxy bool

	diff  sync.Once
	once  sync.Once
	frame []byte
	part  atomic.Pointer[Change]

	chunks []*chunk // of members from nothing
}

// Frame returns what encode makes of the upserts, made once and shared. It must not be called with
// different encoders.
func (c *Change) Frame(encode func(*Change) []byte) []byte {
	c.once.Do(func() { c.frame = encode(c) })
	return c.frame
}

// Part is the change with some of its upserts alone, and without removals. The latest part is kept,
// since sessions that leave something out of a step mostly leave out the same.
func (c *Change) Part(upserts []*Resource) *Change {
	if p := c.part.Load(); p != nil && slices.Equal(p.Upserts, upserts) {
		return p
	}
	p := &Change{Type: c.Type, From: c.From, To: c.To, Upserts: upserts}
	p.PerProxy = slices.ContainsFunc(upserts, (*Resource).HasPlaceholders)
	c.part.Store(p)
	return p
}

// Differ computes Changes and remembers the latest ones, so that the sessions of a class, which
// mostly make the same step, share one, and the indexes of sets. It forgets changes that nobody has
// made for some generations, since they hold what was changed by generations long gone, and of more
// than limit the oldest. It is safe for concurrent use.
type Differ struct {
	limit int
	store *Store // of what Keeping makes

	mu sync.Mutex
	// known are the changes that were asked for since the last turn, before those that were in the
	// turn before that.
	known, before map[step]*Change
	generations   int // since the last turn

	indexes indexes
}

// turnAfter is how many generations a turn has: a change that nobody makes is forgotten after two
// turns at most.
const turnAfter = 32

// maxIndexed is how many resources the indexes that a Differ keeps have together: some 8 MB.
const maxIndexed = 128 << 10

type step struct {
	typ      Type
	from, to Version
}

// NewDiffer returns a Differ that remembers up to limit changes.
func NewDiffer(limit int) *Differ {
	return &Differ{limit: limit, store: NewStore(), known: map[step]*Change{}, indexes: indexes{limit: maxIndexed}}
}

// Advance notes that there is a new generation.
func (d *Differ) Advance() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.generations++; d.generations >= turnAfter {
		d.turn()
	}
}

// turn forgets what was not asked for since the last one. The caller holds mu.
func (d *Differ) turn() { d.known, d.before, d.generations = map[step]*Change{}, d.known, 0 }

// Index is the index of a set. That of a set that many sessions begin with is made once.
func (d *Differ) Index(s *Set) *Index { return d.indexes.of(s) }

// Diff is the change from one set to another.
func (d *Differ) Diff(t Type, from, to *Set) *Change {
	c := d.change(step{typ: t, from: from.Root(), to: to.Root()}, from, to)
	c.diff.Do(c.compute) // not under the lock: whoever makes another step does not wait for it
	return c
}

func (d *Differ) change(key step, from, to *Set) *Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.known[key]
	if c != nil {
		return c
	}
	if c = d.before[key]; c == nil {
		c = &Change{Type: key.typ, From: from, To: to}
	}
	if 2*len(d.known) >= d.limit {
		d.turn()
	}
	d.known[key] = c
	return c
}

func (c *Change) compute() {
	Diff(c.From, c.To, func(old, new *Resource) {
		if new == nil {
			c.Removed = append(c.Removed, old.name)
			return
		}
		c.Upserts = append(c.Upserts, new)
		c.PerProxy = c.PerProxy || new.placeholders
	})
	slices.SortFunc(c.Upserts, func(a, b *Resource) int { return strings.Compare(a.name, b.name) })
	slices.Sort(c.Removed)
}
