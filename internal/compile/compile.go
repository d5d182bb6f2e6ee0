package compile

import (
	"cmp"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Compiler keeps the State of every class that has a connected proxy. It takes them from generation
// to generation at the cost of the change. Its methods may be called from any goroutine; a lock
// lets one run at a time.
type Compiler struct {
	mu      sync.Mutex
	buildMu sync.Mutex // held by the proxy whose class is built in chunks; taken before mu
	*compiled
	chunkSize int // how many units are compiled while the lock is held
	tell      func(appeared, fixed []source.Problem)
	sweptAt   int
	changed   []resource.ClassState // the buffer of Step.Changed, used again in each step
}

// Placement is where a proxy belongs: its class (a variant, in this package), the class's state and
// its own addresses.
type Placement struct {
	Class   resource.ClassID
	State   resource.State
	Overlay resource.Overlay
}

// Step is what one generation changes for connected proxies.
type Step struct {
	Generation uint64
	// Changed are the classes with a new state, by id. The Compiler uses the slice again when
	// publish has returned.
	Changed []resource.ClassState
	// Moved are the proxies that get another class or other own addresses.
	Moved []MemberMove
	// LastClass is the newest class: those that come later have higher numbers.
	LastClass resource.ClassID
	// Appeared are problems that classes see in this step and did not see before. Fixed are those
	// that no class sees any more.
	Appeared, Fixed []source.Problem
	// Causes are the objects whose changes touched each class of Changed, sorted. There are none
	// where a change of the mesh configuration or of a Sidecar touched all. A plan alone has them.
	Causes map[resource.ClassID][]source.Key
}

// MemberMove is a proxy and its new place.
type MemberMove struct {
	Member *Member
	Placement
	// From is the class that it had, and Was the state of that: the new one if the class of that id
	// is in Changed.
	From resource.ClassID
	Was  resource.State
}

// NewCompiler returns a Compiler that starts with an empty snapshot.
func NewCompiler(refusals Refusals) *Compiler { return newCompiler(refusals, unitKinds()) }

func newCompiler(refusals Refusals, kinds []unitKind) *Compiler {
	return &Compiler{
		compiled: &compiled{
			snapshot:   state.NewWriter().Snapshot(),
			builder:    unitBuilder{newTranslationCache(resource.NewStore(), refusals), kinds},
			classifier: scope.NewClassifier(),
			classes:    map[scope.Class]*class{},
			members:    newMembers(),
			matched:    newPatchTally(),
		},
		chunkSize: defaultChunkSize,
	}
}

// Tell has f called with what new classes see wrong, and no class saw before, when they have got a
// proxy. f runs before the next generation does. Tell is called before the Compiler is used.
func (c *Compiler) Tell(f func(appeared, fixed []source.Problem)) { c.tell = f }

// resolve returns the proxy and its own addresses. It prefers the Pod record to what the proxy says
// of itself, because a compromised proxy may claim labels.
func resolve(snap *state.Snapshot, f Facts) (scope.Proxy, resource.Overlay) {
	proxy, own := f.Proxy, resource.Overlay{Pod: f.Proxy.Address, App: "127.0.0.1", Outbound: "127.0.0.1"}
	pod := snap.Workload(proxy.Namespace, proxy.Name)
	if pod == nil {
		proxy.Settings.Credentials = scope.NoCredentials
		return proxy, own
	}
	proxy.Labels, proxy.Place = pod.Labels, scope.PlaceOf(snap, pod)
	if len(pod.Addresses) > 0 {
		own.Pod = pod.Addresses[0]
	}
	proxy.Settings.Credentials = credentialsOf(snap, f, pod)
	own.Trusted, proxy.Address = proxy.Settings.Credentials != scope.NoCredentials, own.Pod
	if pod.Own != nil {
		own.App, own.Outbound = cmp.Or(pod.Own.App, own.App), cmp.Or(pod.Own.Outbound, own.Outbound)
	}
	return proxy, own
}

// Advance takes all classes to the snapshot of the delta. publish runs before any proxy can join or
// leave.
func (c *Compiler) Advance(d *state.Delta, publish func(Step)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := c.advance(d, c.changed)
	c.sweep()
	publish(step)
	clear(step.Changed)
	c.changed = step.Changed[:0]
}

// Plan returns what Advance would change, and changes nothing: neither a class nor anything that is
// sent. It costs what the step costs, but keeps what it translated, so that the step finds it.
// Nothing that it refuses is told.
func (c *Compiler) Plan(d *state.Delta) Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plan(d)
}

func (c *Compiler) plan(d *state.Delta) (step Step) {
	c.builder.plan(func() { step = c.fork().advance(d, nil) })
	c.sweep()
	return step
}

func (c *Compiler) problems() []source.Problem { return c.builder.problems.Current() }

// sweepFloor is the number of remembered translations below which there is no sweep.
const sweepFloor = 4096

// sweep forgets translations that no class uses. It runs when the translations have doubled since
// the last sweep, so its cost is spread over as many new ones.
func (c *Compiler) sweep() {
	if c.builder.size() < 2*max(c.sweptAt, sweepFloor) {
		return
	}
	c.forgetUnused()
	c.sweptAt = c.builder.size()
}

// forgetUnused forgets the translations that no state of a class or variant holds.
func (c *Compiler) forgetUnused() {
	live, held := resource.NewLive(), map[*groupList]bool{}
	classes := c.list
	if c.building != nil {
		classes = append(slices.Clip(classes), c.building)
	}
	for _, cl := range classes {
		states := []resource.State{cl.state}
		for _, v := range cl.variants.list {
			states = append(states, v.state)
		}
		if cl.hasNoVariants() {
			for _, v := range cl.varied {
				held[v.key.list] = true
			}
		}
		for _, state := range states {
			for _, set := range state.Sets() {
				live.Add(set)
			}
		}
	}
	c.builder.sweep(live, held)
}

// Stats are counts for tests.
type Stats struct {
	Classes, Members, Remembered, Nodes int
	Work                                Work
	// Translate has the counts by kind of resource.
	Translate map[string]TranslateStats
}

// Work counts what was done since CountWork.
type Work struct {
	resource.StoreWork
	// Units are those that were compiled, once for each class. Evaluations are answers of scopes to
	// whether a class sees something.
	Units, Evaluations uint64
}

// CountWork lets the compiler count what it does from now on. It is for tests, and is called before
// the compiler is used.
func (c *Compiler) CountWork() {
	c.builder.counts = &Work{}
	c.builder.store.CountWork()
}

// compiled counts a unit that was compiled.
func (w *Work) compiled() {
	if w != nil {
		w.Units++
	}
}

// plus returns the counts together with those of the store, zeros without CountWork.
func (w *Work) plus(s resource.StoreWork) Work {
	sum := Work{StoreWork: s}
	if w != nil {
		sum.Units, sum.Evaluations = w.Units, w.Evaluations
	}
	return sum
}

// Total returns the sum of the counts of all kinds.
func (s Stats) Total() TranslateStats {
	var total TranslateStats
	for _, k := range s.Translate {
		total = total.plus(k)
	}
	return total
}

// Sizes are the bytes of the bodies of one xDS type, over all classes.
type Sizes struct {
	Largest, Sum int
}

// Sizes returns how many classes there are, and how large their configuration is, by type. It looks
// at each class.
func (c *Compiler) Sizes() (classes int, of [resource.NumTypes]Sizes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.classes {
		for t, set := range cl.state.Sets() {
			size := set.Size()
			of[t].Largest = max(of[t].Largest, size)
			of[t].Sum += size
		}
	}
	return len(c.classes), of
}

// Stats returns the present counts, for tests: it looks at each node of the store.
func (c *Compiler) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Classes:    len(c.classes),
		Members:    c.members.count,
		Remembered: c.builder.size(),
		Nodes:      c.builder.store.Nodes(),
		Translate:  c.builder.stats(),
		Work:       c.builder.counts.plus(c.builder.store.Work()),
	}
}
