package compile

import "github.com/lateen-mesh/lateen/internal/source"

// reporter returns a function that adds a problem of a unit to the class.
func (c *class) reporter(builder unitBuilder, u unit) func(source.Problem) {
	return func(p source.Problem) {
		own(c, borrowedProblems, &c.problems)
		c.problems[u] = append(c.problems[u], builder.problems.Add(p))
	}
}

// clearProblems forgets the problems of a unit of the class.
func (c *class) clearProblems(builder unitBuilder, u unit) {
	if len(c.problems[u]) == 0 {
		return
	}
	own(c, borrowedProblems, &c.problems)
	for _, x := range c.problems[u] {
		builder.problems.Release(x)
	}
	delete(c.problems, u)
}

// clearAllProblems forgets the problems of all units.
func (c *class) clearAllProblems(builder unitBuilder) {
	own(c, borrowedProblems, &c.problems)
	for u := range c.problems {
		c.clearProblems(builder, u)
	}
}
