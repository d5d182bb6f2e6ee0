package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// compiled is the mesh as it is compiled: the classes, and where proxies belong. It forks. A fork
// takes steps of its own, which the original does not see; the original must stay as it is
// meanwhile.
type compiled struct {
	snapshot   *state.Snapshot
	builder    unitBuilder
	classifier *scope.Classifier
	classes    map[scope.Class]*class
	list       []*class // the classes, by id
	members    *members
	noSharing  bool   // compiles each class from nothing; tests compare with it
	building   *class // is built in chunks: has no proxy yet, and is in no list
	nextID     resource.ClassID
	forked     *forked // nil of the original
	matched    *patchTally
}

// forked is what a fork has in place of what the members say of where they are.
type forked struct {
	copies map[*variant]*variant // by those of the original
	seats  map[*Member]seated    // of members that moved in the fork
}

// seated is where a member is, and its own addresses.
type seated struct {
	at  *variant
	own resource.Overlay
}

// fork returns a fork. It costs as much for each class as asking whether a change concerns it.
func (c *compiled) fork() *compiled {
	f := *c
	f.builder.translationCache, f.matched = c.builder.fork(), c.matched.fork()
	f.classes, f.list = make(map[scope.Class]*class, len(c.classes)), make([]*class, 0, len(c.list))
	f.forked = &forked{copies: map[*variant]*variant{}, seats: map[*Member]seated{}}
	for _, cl := range c.list {
		copied := f.forked.copyOf(cl)
		f.classes[cl.key], f.list = copied, append(f.list, copied)
	}
	if c.building != nil {
		f.building = f.forked.copyOf(c.building)
	}
	return &f
}

// copyOf copies a class, with its variants. The maps stay those of the original until one is
// changed.
func (f *forked) copyOf(cl *class) *class {
	copied := *cl
	copied.borrows, copied.variants = allBorrowed, variants{}
	if cl.pending != nil {
		pending := *cl.pending
		pending.ports = maps.Clone(pending.ports)
		copied.pending = &pending
	}
	for _, v := range cl.variants.list {
		w := *v
		w.class = &copied
		f.copies[v] = &w
		copied.variants.add(&w)
	}
	return &copied
}

// seatedAt returns where a member is, nil if it is new, and its own addresses.
func (c *compiled) seatedAt(m *Member) (*variant, resource.Overlay) {
	if c.forked == nil {
		return m.variant, m.own
	}
	if to, moved := c.forked.seats[m]; moved {
		return to.at, to.own
	}
	return c.forked.copies[m.variant], m.own
}

func (c *compiled) sit(m *Member, to seated) {
	if c.forked == nil {
		m.variant, m.own = to.at, to.own
		return
	}
	c.forked.seats[m] = to
}

// seat is where a member belongs in the present snapshot.
type seat struct {
	proxy scope.Proxy
	own   resource.Overlay
	key   scope.Class
}

func (c *compiled) seatOf(m *Member, stated *model.Stated) seat {
	proxy, own := resolve(c.snapshot, m.facts())
	key := c.classifier.Classify(c.snapshot, proxy)
	key.Stated = stated
	return seat{proxy, own, key}
}

// place finds or makes the class of a member, and counts the member in it.
func (c *compiled) place(m *Member, to seat) Placement {
	if m.known.Proxy.Labels == to.proxy.Labels {
		m.known.Proxy.Labels = to.proxy.Labels // the Pod record's string: no second copy is kept
	}
	key := to.key
	cl := c.classes[key]
	if cl == nil {
		if cl = c.built(key); cl == nil {
			cl = &class{key: key}
			c.compileNew(cl)
		}
		c.addClass(cl)
	}
	at := c.variantOf(cl, nearOf(to.proxy, cl.placeLabels))
	cl.members++
	at.members++
	if before, _ := c.seatedAt(m); before != nil {
		c.release(before)
	}
	c.sit(m, seated{at, to.own})
	return Placement{Class: at.id, State: at.state, Overlay: to.own}
}

// addClass gives a new class its id and lists it.
func (c *compiled) addClass(cl *class) {
	c.nextID++
	cl.id = c.nextID
	c.classes[cl.key] = cl
	c.list = append(c.list, cl)
	if c.building == cl {
		c.building = nil
	}
}

// compileNew compiles a new class: from its base class if there is one, else from nothing.
func (c *compiled) compileNew(cl *class) {
	s := c.builder.scope(c.snapshot, cl)
	if base := baseFor(c.list, &cl.key, s); base != nil && !c.noSharing {
		cl.startFrom(c.builder, base, c.snapshot, s)
		return
	}
	cl.compileAll(c.builder, s)
}

// variantOf finds or makes the variant of a class at a place.
func (c *compiled) variantOf(cl *class, near model.Labels) *variant {
	at := cl.variants.byPlace[near]
	if at == nil {
		c.nextID++
		at = &variant{class: cl, id: c.nextID, near: near, state: cl.stateAt(c.builder, near)}
		cl.variants.add(at)
	}
	return at
}

// advance takes all classes to the snapshot of the delta. It adds those that changed to a list.
func (c *compiled) advance(d *state.Delta, changed []resource.ClassState) Step {
	c.snapshot = d.To
	step := Step{Generation: d.To.Generation, Changed: changed}
	m := c.builder.impactOf(d, c.builder.newFastPath(d), c.namesHosts())
	m.steps = newStepCache(m)
	m.steps.noSharing = c.noSharing
	if c.forked != nil {
		m.reasons, step.Causes = map[*class][]source.Key{}, map[resource.ClassID][]source.Key{}
	}
	rekeyed := map[*class]bool{}
	for _, cl := range c.list {
		var again bool
		before := len(step.Changed)
		if step.Changed, again = cl.step(c.builder, m, step.Changed); again {
			rekeyed[cl], cl.variants = true, variants{}
		}
		if c.forked != nil {
			step.addCauses(m, m.reasons[cl], step.Changed[before:])
		}
	}
	if c.building != nil {
		c.building.step(c.builder, m, nil)
	}
	m.steps.close()
	c.move(d, rekeyed, &step)
	for _, cl := range c.list {
		c.matched.update(cl, c.builder.problems)
	}
	step.Appeared, step.Fixed = c.builder.problems.Flush()
	step.LastClass = c.nextID
	return step
}

// addCauses notes what touched classes: objects by their units, and services whose endpoints alone
// changed.
func (s *Step) addCauses(m *impact, by []source.Key, changed []resource.ClassState) {
	if len(changed) == 0 {
		return
	}
	for _, e := range m.delta.Endpoints {
		by = append(slices.Clip(by), endpointsOf(e))
	}
	slices.SortFunc(by, source.Key.Compare)
	by = slices.Compact(by)
	for _, c := range changed {
		s.Causes[c.Class] = by
	}
}
