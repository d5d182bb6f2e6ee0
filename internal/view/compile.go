package view

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/world"
)

// Compiler keeps the State of every class that has a connected proxy, and takes them from generation to generation at the
// cost of the change. Its methods may be called by anyone; one works at a time.
type Compiler struct {
	mu         sync.Mutex
	world      *world.World
	comp       compiler
	classifier *scope.Classifier
	classes    map[scope.Class]*class
	members    *members
	nextID     ClassID
	sweptAt    int
}

// Member is one connected proxy, as the Compiler knows it.
type Member struct {
	facts Facts
	class *class
	own   Own
}

// Facts is what a proxy said of itself when it connected. Where a Pod record exists, labels and addresses are taken from it.
type Facts struct {
	Proxy   scope.Proxy
	Address string
}

// Placement is where a proxy belongs.
type Placement struct {
	Class ClassID
	State *State
	Own   Own
}

// Step is what one generation changes for connected proxies.
type Step struct {
	Generation uint64
	// Changed are the classes with a new state, by id.
	Changed []ClassState
	// Moved are proxies whose class or own addresses are others from now on.
	Moved []MemberMove
	// Appeared and Mended are problems that classes see now and did not at the step before, and the other way round.
	Appeared, Mended []source.Problem
}

// ClassState is a class and its new state.
type ClassState struct {
	Class ClassID
	State *State
}

// MemberMove is a proxy and its new place.
type MemberMove struct {
	Member *Member
	Placement
}

// NewCompiler starts with an empty world.
func NewCompiler(refusals Refusals) *Compiler {
	return &Compiler{
		world: world.NewWriter().World(), comp: compiler{newWorkshop(NewStore(), refusals)}, classifier: scope.NewClassifier(),
		classes: map[scope.Class]*class{}, members: newMembers(),
	}
}

// Join adds a proxy and tells its place; its class is compiled if it is the first of it. placed runs before any later
// generation does, so that the proxy misses none.
func (c *Compiler) Join(f Facts, placed func(*Member, Placement)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &Member{facts: f}
	c.members.add(m)
	p := c.place(m)
	placed(m, p)
}

// Leave removes a proxy; a class without proxies is forgotten.
func (c *Compiler) Leave(m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.members.remove(m) {
		return
	}
	c.release(m.class)
}

func (c *Compiler) release(old *class) {
	old.members--
	if old.members == 0 {
		old.settledAll(c.comp)
		delete(c.classes, old.key)
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
		c.nextID++
		cl = &class{id: c.nextID, key: key}
		cl.fill(c.comp, c.comp.scope(c.world, cl), c.world.Generation)
		c.classes[key] = cl
	}
	cl.members++
	if m.class != nil {
		c.release(m.class)
	}
	m.class, m.own = cl, own
	return Placement{Class: cl.id, State: cl.state, Own: own}
}

// resolve prefers the Pod record to what a proxy says of itself: a compromised one may claim labels.
func resolve(w *world.World, f Facts) (scope.Proxy, Own) {
	proxy, own := f.Proxy, Own{Pod: f.Address, App: "127.0.0.1", Outbound: "127.0.0.1"}
	pod := w.Workload(proxy.Namespace, proxy.Name)
	if pod == nil {
		return proxy, own
	}
	proxy.Labels = pod.Labels
	if len(pod.Addresses) > 0 {
		own.Pod = pod.Addresses[0]
	}
	own.App = cmp.Or(pod.OwnApp, own.App)
	own.Outbound = cmp.Or(pod.OwnOutbound, own.Outbound)
	return proxy, own
}

// Advance takes all classes to the world of the delta. publish runs before any proxy can join or leave.
func (c *Compiler) Advance(d *world.Delta, publish func(Step)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world = d.To
	for _, e := range d.Endpoints {
		c.comp.groups.update(e)
	}
	step := Step{Generation: d.To.Generation}
	m := impactOf(d)
	for _, cl := range c.ordered() {
		if cl.step(c.comp, m, d.To.Generation) {
			step.Changed = append(step.Changed, ClassState{Class: cl.id, State: cl.state})
		}
	}
	step.Moved = c.move(d)
	step.Appeared, step.Mended = c.comp.conflicts.Tell()
	c.sweep()
	publish(step)
}

func (c *Compiler) ordered() []*class {
	return slices.SortedFunc(maps.Values(c.classes), func(a, b *class) int { return cmp.Compare(a.id, b.id) })
}

// move places anew the proxies whose class the delta may change.
func (c *Compiler) move(d *world.Delta) []MemberMove {
	var moved []MemberMove
	for m := range c.members.touched(d) {
		proxy, _ := resolve(d.To, m.facts) // that it was another is a change of its Pod, which is in the delta
		if !scope.Moves(d, proxy) {
			continue
		}
		before, own := m.class, m.own
		p := c.place(m)
		if m.class != before || m.own != own {
			moved = append(moved, MemberMove{Member: m, Placement: p})
		}
	}
	return moved
}

func (c *Compiler) conflicts() []source.Problem { return c.comp.conflicts.Standing() }

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
	live := map[*Resource]bool{}
	seen := map[*node]bool{}
	for _, cl := range c.classes {
		for _, set := range cl.state.Sets {
			set.root.mark(seen, live)
		}
		for _, t := range cl.tables {
			t.vhosts.root.mark(seen, live)
		}
	}
	c.comp.sweep(live)
}

// mark collects the resources of a set and of its members, visiting shared nodes once.
func (n *node) mark(seen map[*node]bool, live map[*Resource]bool) {
	if n == nil || seen[n] {
		return
	}
	seen[n] = true
	if r := n.leaf; r != nil {
		live[r] = true
		if r.table != nil {
			r.table.vhosts.root.mark(seen, live)
		}
		for _, g := range r.groups {
			g.Members.root.mark(seen, live)
		}
	}
	for _, k := range n.kids {
		k.mark(seen, live)
	}
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
	StoreWork
	// Units that were compiled, once for each class; Evaluations of whether a class sees something.
	Units, Evaluations uint64
}

func (w Work) plus(s StoreWork) Work {
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
