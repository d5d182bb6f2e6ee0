package compile

import "github.com/lateen-mesh/lateen/internal/source"

// reporter takes what is wrong with a unit of the class.
func (c *class) reporter(comp compiler, u unit) func(source.Problem) {
	return func(p source.Problem) { c.conflicts[u] = append(c.conflicts[u], comp.conflicts.Add(p)) }
}

// settled forgets what was wrong with a unit of the class.
func (c *class) settled(comp compiler, u unit) {
	for _, x := range c.conflicts[u] {
		comp.conflicts.Release(x)
	}
	delete(c.conflicts, u)
}

// settledAll is settled for all units.
func (c *class) settledAll(comp compiler) {
	for u := range c.conflicts {
		c.settled(comp, u)
	}
}
