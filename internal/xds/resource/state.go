package resource

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// State is the configuration that one class of proxies should have at one generation. It never
// changes and is cheap to copy. The zero State is none.
//
// Endpoints change most often, in hundreds of classes at once. So they are kept apart: classes with
// the same endpoints share an EndpointPart, and a change of endpoints makes nothing that belongs to
// one class alone.
type State struct {
	endpoints *EndpointPart
	others    *otherSets
}

// EndpointPart is a generation and its endpoints. The States of many classes share it. It never
// changes.
type EndpointPart struct {
	generation uint64
	set        *Set
}

// otherSets are the sets of a State without its endpoints. They never change.
type otherSets struct {
	sets   [NumTypes]*Set // nil at Endpoint
	tables *tables        // what makes Tables; a class's states have the same
}

// ClassID identifies a class for as long as it lives.
type ClassID uint64

// ClassState is a class, its new state and the one before it.
type ClassState struct {
	Class      ClassID
	State, Was State
}

// NewEndpointPart returns the endpoints of a generation.
func NewEndpointPart(generation uint64, endpoints *Set) *EndpointPart {
	return &EndpointPart{generation: generation, set: endpoints}
}

// Set returns the endpoints.
func (p *EndpointPart) Set() *Set { return p.set }

// NewState returns a state with empty sets.
func NewState(generation uint64) State { return State{}.Emptied(NewStore(), generation) }

// Emptied returns a State of the same class with empty sets; a full compilation starts with it.
// Called on the zero State it returns the first State of a class, whose Tables are made in the
// store.
func (s State) Emptied(store *Store, generation uint64) State {
	if s.IsNone() {
		return emptyState(generation, newTables(store))
	}
	return emptyState(generation, s.others.tables)
}

// Fork returns an equal State for another class. From then on each class assembles Tables of its
// own.
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

// IsNone reports whether this is the zero State.
func (s State) IsNone() bool { return s.endpoints == nil }

// Generation returns the generation at which the class got this State.
func (s State) Generation() uint64 { return s.endpoints.generation }

// Set returns the resources of a type, never nil. Route has the heads of tables only: their virtual
// hosts are resources of their own, see Tables.
func (s State) Set(t Type) *Set {
	if t == Endpoint {
		return s.endpoints.set
	}
	return s.others.sets[t]
}

// Sets returns the sets of all types.
func (s State) Sets() [NumTypes]*Set {
	sets := s.others.sets
	sets[Endpoint] = s.endpoints.set
	return sets
}

// Tables returns the route tables with their virtual hosts in them, for clients that do not speak
// VHDS. They are assembled when they are asked for.
func (s State) Tables() *Set { return s.others.tables.of(s.Set(Route), s.Set(VirtualHost)) }

// NameTable returns the one name table with all names, for clients that do not take them one by
// one. It is there even if there are no names. It is assembled when it is asked for.
func (s State) NameTable() *Set { return s.others.tables.withAll(s.Set(Name)) }

// At returns the same State at a later generation.
func (s State) At(generation uint64) State {
	return s.WithEndpoints(&EndpointPart{generation: generation, set: s.endpoints.set})
}

// With returns the same State with another set of a type.
func (s State) With(t Type, set *Set) State {
	if t == Endpoint {
		return s.WithEndpoints(&EndpointPart{generation: s.endpoints.generation, set: set})
	}
	sets := s.Sets()
	sets[t] = set
	return s.WithSets(s.endpoints, sets)
}

// WithEndpoints returns the same State at another generation, with that generation's endpoints.
func (s State) WithEndpoints(at *EndpointPart) State { return State{endpoints: at, others: s.others} }

// WithSets returns a State of the same class with other sets. It ignores the set of Endpoint: at
// has the endpoints.
func (s State) WithSets(at *EndpointPart, sets [NumTypes]*Set) State {
	later := s.WithEndpoints(at)
	if sets[Endpoint] = nil; sets != s.others.sets {
		later.others = &otherSets{sets: sets, tables: s.others.tables}
	}
	return later
}

// Equal reports whether two States have the same sets.
func (s State) Equal(o State) bool {
	if !s.endpoints.set.Equal(o.endpoints.set) {
		return false
	}
	return s.others == o.others || slices.EqualFunc(s.others.sets[:], o.others.sets[:], func(a, b *Set) bool {
		return a == b || a.Equal(b)
	})
}

// Size returns the sum of all bodies' lengths in bytes.
func (s State) Size() int {
	total := 0
	for _, set := range s.Sets() {
		total += set.Size()
	}
	return total
}

// Change is the difference of two sets. All sessions that make the same step share it.
type Change struct {
	Type     Type
	From, To *Set        // nil for members of collections
	Upserts  []*Resource // by name, but for members from nothing
	Removed  []string    // sorted
	// PerProxy is set if an upsert depends on the proxy's own addresses. Its bytes cannot be shared
	// then.
	PerProxy bool

	diff  sync.Once
	once  sync.Once
	frame []byte
	part  atomic.Pointer[Change]

	chunks    []*chunk     // of members from nothing
	members   int          // of the assignment, in a change of members
	envoyTime atomic.Int64 // what EnvoyTime has come to, in ns; 0 if nobody has asked
}

// Frame returns the encoding of the upserts, made once and shared. All callers must pass the same
// encoder.
func (c *Change) Frame(encode func(*Change) []byte) []byte {
	c.once.Do(func() { c.frame = encode(c) })
	return c.frame
}

// Part returns a change with some of the upserts and without removals. The latest part is kept,
// because sessions that leave something out of a step mostly leave out the same.
func (c *Change) Part(upserts []*Resource) *Change {
	if p := c.part.Load(); p != nil && slices.Equal(p.Upserts, upserts) {
		return p
	}
	p := &Change{Type: c.Type, From: c.From, To: c.To, Upserts: upserts}
	p.PerProxy = slices.ContainsFunc(upserts, (*Resource).HasPlaceholders)
	c.part.Store(p)
	return p
}

// Differ computes Changes and keeps the latest ones, so that the sessions of a class share them:
// most make the same step. It keeps indexes of sets too.
//
// A Change holds resources of generations long gone. So the Differ drops a Change that no session
// has asked for during some generations, and the oldest ones beyond the limit. It is safe for
// concurrent use.
type Differ struct {
	limit int
	store *Store // of what Keeping makes

	mu sync.Mutex
	// recent are the changes asked for since the last turn; previous those of the turn before.
	recent, previous map[step]*Change
	generations      int // since the last turn

	indexes indexCache
	churn   churn
	now     func() time.Time
}

// generationsPerTurn is the length of a turn. A change that no session asks for is dropped after
// two turns at most.
const generationsPerTurn = 32

// maxIndexed is how many resources the kept indexes have together; that is some 8 MB.
const maxIndexed = 128 << 10

type step struct {
	typ      Type
	from, to Version
}

// NewDiffer returns a Differ that keeps up to limit changes.
func NewDiffer(limit int) *Differ { return NewDifferAt(limit, time.Now) }

// NewDifferAt returns a Differ with a clock of its own.
func NewDifferAt(limit int, now func() time.Time) *Differ {
	return &Differ{
		limit: limit, store: NewStore(), recent: map[step]*Change{}, indexes: indexCache{limit: maxIndexed}, now: now,
	}
}

// Advance tells the Differ that there is a new generation.
func (d *Differ) Advance() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.churn.advance()
	if d.generations++; d.generations >= generationsPerTurn {
		d.turn()
	}
}

// turn drops what was not asked for since the last turn. The caller holds mu.
func (d *Differ) turn() { d.recent, d.previous, d.generations = map[step]*Change{}, d.recent, 0 }

// Index returns the index of a set. It is made once for a set that many sessions begin with.
func (d *Differ) Index(s *Set) *Index { return d.indexes.of(s) }

// Diff returns the change from one set to another.
func (d *Differ) Diff(t Type, from, to *Set) *Change {
	c := d.change(step{typ: t, from: from.Root(), to: to.Root()}, from, to)
	c.diff.Do(func() { // not under the lock: whoever makes another step does not wait for it
		if changed := c.compute(); len(changed) > 0 {
			d.churn.noteAll(changed, d.now())
		}
	})
	return c
}

func (d *Differ) change(key step, from, to *Set) *Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.recent[key]
	if c != nil {
		return c
	}
	if c = d.previous[key]; c == nil {
		c = &Change{Type: key.typ, From: from, To: to}
	}
	if 2*len(d.recent) >= d.limit {
		d.turn()
	}
	d.recent[key] = c
	return c
}

// compute finds the change. It returns the assignments that are in both sets.
func (c *Change) compute() (changed []*Resource) {
	Diff(c.From, c.To, func(old, new *Resource) {
		if new == nil {
			c.Removed = append(c.Removed, old.name)
			return
		}
		if old != nil && c.Type == Endpoint {
			changed = append(changed, new)
		}
		c.Upserts = append(c.Upserts, new)
		c.PerProxy = c.PerProxy || new.placeholders
	})
	slices.SortFunc(c.Upserts, func(a, b *Resource) int { return strings.Compare(a.name, b.name) })
	slices.Sort(c.Removed)
	return changed
}
