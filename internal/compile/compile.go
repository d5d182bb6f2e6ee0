package compile

import (
	"cmp"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Compiler keeps the State of every class that has a connected proxy, and takes them from generation to generation at the
// cost of the change. Its methods may be called by anyone; one works at a time.
type Compiler struct {
	mu         sync.Mutex
	one        sync.Mutex // is taken before mu by a proxy whose class grows
	world      *state.Snapshot
	comp       compiler
	classifier *scope.Classifier
	classes    map[scope.Class]*class
	list       []*class // the classes, by id
	members    *members
	alone      bool   // compiles each class from nothing, for comparison
	growing    *class // has no proxy yet, and is in no list; nil if none is
	slice      int    // how much of a class grows while others wait
	nextID     resource.ClassID
	sweptAt    int
	changed    []resource.ClassState // room for Step.Changed, which is most of what a change of endpoints is told in
}

// Member is one connected proxy, as the Compiler knows it.
type Member struct {
	facts   Facts
	variant *variant
	own     resource.Overlay
}

// Facts is what a proxy said of itself when it connected. Where a Pod record exists, labels and addresses are taken from it.
type Facts struct {
	Proxy   scope.Proxy
	Address string
	// Account is the service account that it proved to be of, in its own namespace; empty if it proved nothing.
	Account string
}

// Placement is where a proxy belongs.
type Placement struct {
	Class   resource.ClassID
	State   resource.State
	Overlay resource.Overlay
}

// Step is what one generation changes for connected proxies.
type Step struct {
	Generation uint64
	// Changed are the classes with a new state, by id. The list is the Compiler's own again when publish returns.
	Changed []resource.ClassState
	// Moved are proxies whose class or own addresses are others from now on.
	Moved []MemberMove
	// Appeared and Mended are problems that classes see now and did not at the step before, and the other way round.
	Appeared, Mended []source.Problem
}

// MemberMove is a proxy and its new place.
type MemberMove struct {
	Member *Member
	Placement
}

// NewCompiler starts with an empty world.
func NewCompiler(refusals Refusals) *Compiler {
	return &Compiler{
		world: state.NewWriter().Snapshot(), comp: compiler{newWorkshop(resource.NewStore(), refusals)}, classifier: scope.NewClassifier(),
		classes: map[scope.Class]*class{}, members: newMembers(), slice: sliceOfAClass,
	}
}

// Join adds a proxy and tells its place; its class is compiled if it is the first of it. placed runs before any later
// generation does, so that the proxy misses none.
func (c *Compiler) Join(f Facts, placed func(*Member, Placement)) {
	m := &Member{facts: f}
	if c.enter(m, placed) {
		return
	}
	c.one.Lock()
	defer c.one.Unlock()
	defer c.giveUp()
	for !c.enter(m, placed) {
		c.growFor(m)
	}
}

// enter places a proxy, unless its class would have to be compiled from nothing.
func (c *Compiler) enter(m *Member, placed func(*Member, Placement)) (entered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, has := c.home(m); !has {
		return false
	}
	c.members.add(m)
	placed(m, c.place(m))
	return true
}

// home is the class of a proxy, and whether it is there or can be had of a kin.
func (c *Compiler) home(m *Member) (key scope.Class, has bool) {
	proxy, _ := resolve(c.world, m.facts)
	key = c.classifier.Classify(c.world, proxy)
	if c.alone || c.classes[key] != nil || c.grown(key) != nil {
		return key, true
	}
	return key, kinAmong(c.list, &key, scope.New(c.world, &key)) != nil
}

// Leave removes a proxy; a class without proxies is forgotten.
func (c *Compiler) Leave(m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.members.remove(m) {
		return
	}
	c.release(m.variant)
}

func (c *Compiler) release(at *variant) {
	old := at.class
	if at.members--; at.members == 0 {
		old.variants.drop(at)
	}
	old.members--
	if old.members == 0 {
		old.settledAll(c.comp)
		delete(c.classes, old.key)
		c.list = slices.DeleteFunc(c.list, func(other *class) bool { return other == old })
	}
}

// place finds the class of a member in the present world, and enters it.
func (c *Compiler) place(m *Member) Placement {
	proxy, own := resolve(c.world, m.facts)
	if m.facts.Proxy.Labels == proxy.Labels {
		m.facts.Proxy.Labels = proxy.Labels // the text that the Pod's record has, in place of one more
	}
	key := c.classifier.Classify(c.world, proxy)
	cl := c.classes[key]
	if cl == nil {
		if cl = c.grown(key); cl == nil {
			cl = &class{key: key}
			c.begin(cl)
		}
		c.enlist(cl)
	}
	at := c.variantOf(cl, nearOf(proxy, cl.keys))
	cl.members++
	at.members++
	if m.variant != nil {
		c.release(m.variant)
	}
	m.variant, m.own = at, own
	return Placement{Class: at.id, State: at.state, Overlay: own}
}

func (c *Compiler) enlist(cl *class) {
	c.nextID++
	cl.id = c.nextID
	c.classes[cl.key] = cl
	c.list = append(c.list, cl)
	if c.growing == cl {
		c.growing = nil
	}
}

// begin compiles a class that is new.
func (c *Compiler) begin(cl *class) {
	s := c.comp.scope(c.world, cl)
	if kin := kinAmong(c.list, &cl.key, s); kin != nil && !c.alone {
		cl.follow(c.comp, kin, c.world, s)
		return
	}
	cl.fill(c.comp, s)
}

// variantOf finds or makes the variant of a class at a place.
func (c *Compiler) variantOf(cl *class, near model.Labels) *variant {
	at := cl.variants.at[near]
	if at == nil {
		c.nextID++
		at = &variant{class: cl, id: c.nextID, near: near, state: cl.stateAt(c.comp, near)}
		cl.variants.add(at)
	}
	return at
}

// resolve prefers the Pod record to what a proxy says of itself: a compromised one may claim labels.
func resolve(w *state.Snapshot, f Facts) (scope.Proxy, resource.Overlay) {
	proxy, own := f.Proxy, resource.Overlay{Pod: f.Address, App: "127.0.0.1", Outbound: "127.0.0.1"}
	pod := w.Workload(proxy.Namespace, proxy.Name)
	if pod == nil {
		return proxy, own
	}
	proxy.Labels, proxy.Place = pod.Labels, scope.PlaceOf(w, pod)
	if len(pod.Addresses) > 0 {
		own.Pod = pod.Addresses[0]
	}
	own.Trusted = f.Account != "" && f.Account == pod.ServiceAccount
	if pod.Own != nil {
		own.App, own.Outbound = cmp.Or(pod.Own.App, own.App), cmp.Or(pod.Own.Outbound, own.Outbound)
	}
	return proxy, own
}

// Advance takes all classes to the world of the delta. publish runs before any proxy can join or leave.
func (c *Compiler) Advance(d *state.Delta, publish func(Step)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world = d.To
	step := Step{Generation: d.To.Generation, Changed: c.changed}
	m := impactOf(d, c.comp.lane(d))
	m.steps = newStepCache(m)
	m.steps.alone = c.alone
	rekeyed := map[*class]bool{}
	for _, cl := range c.list {
		var again bool
		if step.Changed, again = cl.step(c.comp, m, step.Changed); again {
			rekeyed[cl], cl.variants = true, variants{}
		}
	}
	if c.growing != nil {
		c.growing.step(c.comp, m, nil)
	}
	m.steps.close()
	step.Moved = c.move(d, rekeyed)
	step.Appeared, step.Mended = c.comp.conflicts.Flush()
	c.sweep()
	publish(step)
	clear(step.Changed)
	c.changed = step.Changed[:0]
}

// move places anew the proxies whose class or place the delta may change, and those of classes in which places count otherwise
// than before.
func (c *Compiler) move(d *state.Delta, rekeyed map[*class]bool) []MemberMove {
	var moved []MemberMove
	moves := scope.MovesOf(d)
	touched := c.members.touched(d, moves)
	if len(rekeyed) > 0 {
		for m := range c.members.all() {
			if rekeyed[m.variant.class] {
				touched[m] = true
			}
		}
	}
	for m := range touched {
		proxy, _ := resolve(d.To, m.facts) // that it was another is a change of its Pod, which is in the delta
		if !rekeyed[m.variant.class] && !moves.Affects(proxy) {
			continue
		}
		before, own := m.variant, m.own
		p := c.place(m)
		if m.variant != before || m.own != own {
			moved = append(moved, MemberMove{Member: m, Placement: p})
		}
	}
	return moved
}

func (c *Compiler) conflicts() []source.Problem { return c.comp.conflicts.Current() }

// sweepFloor is how many remembered translations are not worth a sweep.
const sweepFloor = 4096

// sweep forgets translations that no class uses, once they may outnumber the others: its cost is spread over as many new
// translations.
func (c *Compiler) sweep() {
	if c.comp.size() < 2*max(c.sweptAt, sweepFloor) {
		return
	}
	c.forgetUnused()
	c.sweptAt = c.comp.size()
}

func (c *Compiler) forgetUnused() {
	live, held := resource.NewLive(), map[*groupList]bool{}
	classes := c.list
	if c.growing != nil {
		classes = append(slices.Clip(classes), c.growing)
	}
	for _, cl := range classes {
		states := []resource.State{cl.state}
		for _, v := range cl.variants.list {
			states = append(states, v.state)
		}
		if cl.isNowhere() {
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
	c.comp.sweep(live, held)
}

// Stats are counts for metrics and tests.
type Stats struct {
	Classes, Members, Remembered, Nodes int
	Work                                Work
	// Translate is by the kind of what is made.
	Translate map[string]TranslateStats
}

// Work counts what was done since the start.
type Work struct {
	resource.StoreWork
	// Units that were compiled, once for each class; Evaluations of whether a class sees something.
	Units, Evaluations uint64
}

func (w Work) plus(s resource.StoreWork) Work {
	w.StoreWork = s
	return w
}

// Total are the counts of all kinds.
func (s Stats) Total() TranslateStats {
	var total TranslateStats
	for _, k := range s.Translate {
		total = total.plus(k)
	}
	return total
}

// Stats are the present counts.
func (c *Compiler) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Classes: len(c.classes), Members: c.members.count, Remembered: c.comp.size(), Nodes: c.comp.store.Nodes(), Translate: c.comp.stats(),
		Work: c.comp.work.plus(c.comp.store.Work()),
	}
}
