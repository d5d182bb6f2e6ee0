package compile

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// leaver is a proxy that gets another class.
type leaver struct {
	member *Member
	to     seat
}

// move places again the proxies whose class or place the delta may change. So it does with all
// proxies of rekeyed classes, in which other labels of the place count than before.
func (c *compiled) move(d *state.Delta, rekeyed map[*class]bool, step *Step) {
	moves := scope.MovesOf(d)
	touched := c.members.touched(d, moves)
	if len(rekeyed) > 0 {
		for m := range c.members.all() {
			if at, _ := c.seatedAt(m); rekeyed[at.class] {
				touched[m] = true
			}
		}
	}
	var leavers []leaver
	for m := range touched {
		proxy, _ := resolve(d.To, m.facts()) // a proxy that becomes another has a changed Pod, which is in the delta
		at, _ := c.seatedAt(m)
		if !rekeyed[at.class] && !moves.Affects(proxy) {
			continue
		}
		to := c.seatOf(m, at.class.key.Stated)
		if to.key != at.class.key {
			leavers = append(leavers, leaver{m, to})
			continue
		}
		c.moveTo(m, to, step)
	}
	c.takeAlong(leavers, step)
	for _, l := range leavers {
		c.moveTo(l.member, l.to, step)
	}
}

// moveTo places a proxy and notes if it has another place now.
func (c *compiled) moveTo(m *Member, to seat, step *Step) {
	before, own := c.seatedAt(m)
	p := c.place(m, to)
	if now, has := c.seatedAt(m); now != before || has != own {
		step.Moved = append(step.Moved, MemberMove{Member: m, Placement: p, From: before.id, Was: before.state})
	}
}

// takeAlong makes the class that proxies leave the one that they get, if all leave it for the same
// one and nobody has that yet. Then it costs what the two see differently. A new class would be
// copied from theirs, and theirs be forgotten, at the cost of all that they see: so it would be
// with each change of a rule that limits connections to its workloads.
func (c *compiled) takeAlong(leavers []leaver, step *Step) {
	if c.noSharing || len(leavers) == 0 {
		return
	}
	type group struct {
		class *class
		to    scope.Class
	}
	leave := map[group]int{}
	for _, l := range leavers {
		at, _ := c.seatedAt(l.member)
		g := group{at.class, l.to.key}
		if leave[g]++; leave[g] == g.class.members {
			c.rename(g.class, g.to, step)
		}
	}
}

// rename makes a class of sidecars another one that nobody has, if it can start from it.
func (c *compiled) rename(cl *class, key scope.Class, step *Step) {
	if c.classes[key] != nil || c.built(key) != nil ||
		baseFor([]*class{cl}, &key, scope.New(c.snapshot, &key)) == nil {
		return
	}
	was := &class{key: cl.key}
	delete(c.classes, cl.key)
	cl.key, cl.scope = key, *c.builder.scope(c.snapshot, was)
	c.classes[key] = cl
	changed, rekeyed := cl.become(c.builder, &was.key, c.snapshot, c.builder.scope(c.snapshot, cl))
	if rekeyed {
		cl.variants = variants{} // all proxies of the class are placed again
	}
	for _, to := range changed {
		step.change(to)
	}
}

// change notes the last state of a class in the step, and the one that it had before the step.
func (s *Step) change(to resource.ClassState) {
	i := slices.IndexFunc(s.Changed, func(o resource.ClassState) bool { return o.Class == to.Class })
	if i < 0 {
		s.Changed = append(s.Changed, to)
		return
	}
	to.Was = s.Changed[i].Was
	s.Changed[i] = to
}
