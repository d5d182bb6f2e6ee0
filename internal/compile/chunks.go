package compile

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// The first class of its kind has no base class, so all its units are compiled, which takes long
// where it sees much. buildFor compiles them in chunks and releases the Compiler's lock in between,
// so that pending generations can run.
//
// A generation between two chunks is a step for what is compiled so far, as for any class. A unit
// that the step touches is compiled in the step, and again when its turn comes. Both give the same
// resources and the same problems, because both read the present snapshot.

// pendingBuild is what of a class is not compiled yet.
type pendingBuild struct {
	units []unit
	ports map[uint16]bool // they come last: a listener depends on whether a route table exists
}

// isPending reports whether a port is not compiled yet, so that a step leaves it out. A port that
// was not there when the build began is compiled by the step, as with any class.
func (g *pendingBuild) isPending(port uint16) bool { return g != nil && g.ports[port] }

// defaultChunkSize is how many units are compiled while generations wait. They take about 2 ms.
const defaultChunkSize = 128

// buildFor starts to build the class of a proxy, or compiles its next chunk. One class is built at
// a time.
func (c *Compiler) buildFor(m *Member, stated *model.Stated) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, has := c.keyOf(m, stated)
	switch {
	case has: // tryJoin places the proxy
	case c.building == nil || c.building.key != key: // none is being built, or the proxy's class is another by now
		c.dropBuilding()
		c.building = &class{key: key}
		c.building.startBuild(c.builder, c.builder.scope(c.snapshot, c.building))
	default:
		c.building.compileChunk(c.builder, c.chunkSize)
	}
}

// built returns the class that is built completely and waits for its proxy; nil if there is none.
func (c *compiled) built(key scope.Class) *class {
	if g := c.building; g != nil && g.key == key && g.pending == nil {
		return g
	}
	return nil
}

// abandonBuild forgets a class that is not completely built: its proxy is of another one by now, or
// compiling it failed.
func (c *Compiler) abandonBuild() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropBuilding()
}

func (c *Compiler) dropBuilding() {
	if c.building != nil {
		c.building.clearAllProblems(c.builder)
		c.building = nil
	}
}

// compileAll compiles the class from nothing. Its variants are not touched.
func (c *class) compileAll(builder unitBuilder, s *scope.Scope) {
	c.startBuild(builder, s)
	for c.pending != nil {
		c.compileChunk(builder, len(c.pending.units)+len(c.pending.ports)+1)
	}
}

// startBuild empties the class and lists its units and ports as pending.
func (c *class) startBuild(builder unitBuilder, s *scope.Scope) {
	c.varied, c.labelUses, c.placeLabels = map[variedKey]*varied{}, map[string]int{}, nil
	c.variedClusters = 0
	c.clearAllProblems(builder)
	c.scope, c.state = *s, c.state.Emptied(builder.store, s.Generation())
	c.tables, c.owners, c.problems = map[string]table{}, map[uint16]*model.Service{}, map[unit][]*source.Tallied{}
	c.ownMaps()
	c.patches, c.matches = builder.patches.of(s), resource.Empty()
	c.pending = &pendingBuild{}
	c.pending.units, c.pending.ports = builder.units(s)
}

// compileChunk compiles at most that many of the pending units and ports.
func (c *class) compileChunk(builder unitBuilder, most int) {
	lacks, s, e := c.pending, &c.scope, newEdits(nil, &c.scope)
	now := lacks.units[:min(most, len(lacks.units))]
	for _, u := range now {
		builder.counts.compiled()
		for _, slot := range u.kind.slots(builder, s, u, c.reporter(builder, u)) {
			e.put(slot)
		}
	}
	c.editTables(builder, s, e)
	for port := range e.toggled {
		lacks.ports[port] = true
	}
	if lacks.units = lacks.units[len(now):]; len(lacks.units) == 0 {
		ports := slices.Sorted(maps.Keys(lacks.ports))
		ports = ports[:min(most-len(now), len(ports))]
		for _, port := range ports {
			delete(lacks.ports, port)
			c.compilePort(builder, s, port, e)
		}
		if len(lacks.ports) == 0 {
			c.pending = nil
		}
	}
	c.apply(builder.store, e)
	c.noteVaried(e)
}
