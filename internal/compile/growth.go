package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A class that is like none that is there is compiled from nothing, which takes long where it sees much. So that generations need
// not wait for all of it, it grows by slices, and the Compiler is free between two of them. A generation that comes then is a step
// for what has grown as for any class. A unit that it touches is compiled in the step, and once more when its turn comes: to the
// same, and with the same problems, since both are of the present world.

// growth is what a class lacks that is not whole yet.
type growth struct {
	units []unit
	ports map[uint16]bool // they come last: a listener depends on whether a route table is there
}

// port tells whether a port is to be compiled yet, so that a step leaves it. One that the world did not have when the class was sown is
// the step's, as with any class.
func (g *growth) port(port uint16) bool { return g != nil && g.ports[port] }

// sliceOfAClass is how many units are compiled while generations wait: some 2 ms.
const sliceOfAClass = 128

// growFor lets the class of a proxy grow by a slice. One class grows at a time.
func (c *Compiler) growFor(m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, has := c.home(m)
	switch {
	case has: // it may enter
	case c.growing == nil || c.growing.key != key: // the proxy is of another class than it was
		c.drop()
		c.growing = &class{key: key}
		c.growing.sow(c.comp, c.comp.scope(c.world, c.growing))
	default:
		c.growing.grow(c.comp, c.slice)
	}
}

// grown is a class that has grown to the end and waits for its proxy; nil if there is none.
func (c *Compiler) grown(key scope.Class) *class {
	if g := c.growing; g != nil && g.key == key && g.lacks == nil {
		return g
	}
	return nil
}

// giveUp forgets a class that has not grown to the end: its proxy is of another one by now, or compiling it failed.
func (c *Compiler) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

func (c *Compiler) drop() {
	if c.growing != nil {
		c.growing.settledAll(c.comp)
		c.growing = nil
	}
}

// fill compiles a class from nothing, but for its variants.
func (c *class) fill(comp compiler, s *scope.Scope) {
	c.sow(comp, s)
	for c.lacks != nil {
		c.grow(comp, len(c.lacks.units)+len(c.lacks.ports)+1)
	}
}

// sow makes a class empty that is to grow.
func (c *class) sow(comp compiler, s *scope.Scope) {
	c.varied, c.wants, c.keys = map[string]*varied{}, map[string]int{}, nil
	c.settledAll(comp)
	c.scope, c.state = *s, c.state.Emptied(comp.store, s.Generation())
	c.tables, c.owners, c.conflicts = map[string]table{}, map[uint16]*model.Service{}, map[unit][]*source.Tallied{}
	c.lacks = &growth{}
	c.lacks.units, c.lacks.ports = comp.units(s)
}

// grow compiles so many of the units and ports that a class lacks.
func (c *class) grow(comp compiler, most int) {
	lacks, s, e := c.lacks, &c.scope, newEdits(nil)
	now := lacks.units[:min(most, len(lacks.units))]
	for _, u := range now {
		comp.work.Units++
		for _, slot := range comp.slots(s, u, c.reporter(comp, u)) {
			e.put(slot)
		}
	}
	c.editTables(comp, s, e)
	for port := range e.turned {
		lacks.ports[port] = true
	}
	if lacks.units = lacks.units[len(now):]; len(lacks.units) == 0 {
		ports := slices.Sorted(maps.Keys(lacks.ports))
		ports = ports[:min(most-len(now), len(ports))]
		for _, port := range ports {
			delete(lacks.ports, port)
			c.fillPort(comp, s, port, e)
		}
		if len(lacks.ports) == 0 {
			c.lacks = nil
		}
	}
	c.apply(comp.store, e)
	c.note(e)
}
